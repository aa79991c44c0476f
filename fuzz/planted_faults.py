"""Faults that a fuzz target must find: each one textual change to the shipped code, made in a copy of the tree only.

`./kvcert fuzz bite` builds each, runs its target from the shipped corpus and prints how long it took. `find`, a text or a pattern,
must occur exactly once in the file; `./kvcert test` checks that, so a rewrite of the code takes its faults along or says that it
did not.
"""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    target: str
    file: str
    find: str | re.Pattern
    replace: str
    why: str  # what kind of mistake it stands for

    def planted_in(self, text: str) -> tuple[str, int]:
        """The text with the fault, and in how many places."""
        if isinstance(self.find, str):
            return text.replace(self.find, self.replace), text.count(self.find)
        return self.find.subn(self.replace, text)


FIELDS, SCAN, DECODE, ENCODE = "optimized/wire_fields.h", "optimized/wire_scan.c", "optimized/wire_decode.cpp", "optimized/wire.cpp"
HALF, RING, AVX2 = "optimized/binary16.hpp", "optimized/ring.cpp", "optimized/kernels/avx2_products.hpp"
AVX2_INT8, AVX2_STATE, F16C = "optimized/kernels/avx2_int8.cpp", "optimized/kernels/avx2_state.cpp", "optimized/kernels/f16c.cpp"

FAULTS = [
    # The scan: what is looked at, and how far.
    Fault("missing-bound", "import_wire", FIELDS, "if (n > remaining) return refuse",
          "if (n > remaining + 4) return refuse",
          "a length is not held against what remains: a read past the buffer"),
    Fault("header-of-28-bytes", "import_wire", FIELDS, "if (n > remaining) return refuse",
          "if (n > remaining && (n != 8 || remaining < 4)) return refuse",
          "a known defect: 28 bytes count as a header, and its last field lies beyond"),
    Fault("less-for-less-equal", "import_wire", FIELDS, "if (*value > largest) return refuse",
          "if (*value >= largest) return refuse",
          "the largest accepted value is refused"),
    Fault("kind-off-by-one", "import_wire", FIELDS, "KVCERT_WIRE_BOUNDED, KVCERT_WIRE_UNKNOWN_KIND",
          "KVCERT_WIRE_BOUNDED + 1, KVCERT_WIRE_UNKNOWN_KIND",
          "an unknown kind passes as known"),
    Fault("product-in-32-bits", "import_wire", SCAN, re.compile(r"return take\((.*)linear_len \* 4\);"),
          r"return take(\1(uint32_t)(linear_len * 4));",
          "2^30 elements take 0 bytes"),
    Fault("position-in-32-bits", "import_wire", SCAN, "position, KVCERT_WIRE_POSITION_MISMATCH",
          "position & 0xFFFFFFFF, KVCERT_WIRE_POSITION_MISMATCH",
          "two 64-bit numbers compared by their low halves"),
    Fault("flag-above-one", "import_wire", FIELDS, "1, 1, KVCERT_WIRE_BAD_FLAG, flag)",
          "1, 255, KVCERT_WIRE_BAD_FLAG, flag)",
          "a known defect: any flag is taken for true"),
    Fault("flags-may-disagree", "import_wire", SCAN, re.compile(r"exact_field\((.*), 4, flag, KVCERT_WIRE_BAD_FLAG\)"),
          r"bounded_field(\1, 4, 1, KVCERT_WIRE_BAD_FLAG, &flag)",
          "a known defect: header and body say different widths"),
    Fault("reserved-ignored", "import_wire", FIELDS, re.compile(r"exact_field\((.*), 2, 0, KVCERT_WIRE_RESERVED_NOT_ZERO\)"),
          r"field(\1, 2, &(uint64_t){0})",
          "a known defect: reserved bits are not looked at"),
    Fault("trailing-byte", "import_wire", SCAN, re.compile(r"at != size\)"),
          "at + 1 < size)",
          "one byte may follow the record"),
    Fault("k-len-shorter", "import_wire", SCAN, "if (n != 0 && n != whole)",
          "if (n > whole)",
          "a known defect: fewer rows than positions"),
    Fault("values-unlike-keys", "import_wire", SCAN, re.compile(r"exact_field\((.*), 4, length, KVCERT_WIRE_INCONSISTENT_LENGTH\)"),
          r"field(\1, 4, &length)",
          "a known defect: v_len is not held against k_len"),
    Fault("imp-len-unchecked", "import_wire", SCAN, re.compile(r"exact_field\((.*), 4, rows, KVCERT_WIRE_INCONSISTENT_LENGTH\)"),
          r"field(\1, 4, &rows)",
          "a known defect: imp_len may differ from seq_len"),
    Fault("ring-cursor-unchecked", "import_wire", SCAN, re.compile(r"exact_field\((.*), 4, seq_len % layer.window, KVCERT_WIRE_RING_CURSOR_MISMATCH\)"),
          r"field(\1, 4, &(uint64_t){0})",
          "the ring's head is taken as sent"),
    Fault("ring-slot-unchecked", "import_wire", SCAN, "if (found != 0) return refuse",
          "if (found > 0xFFFF) return refuse",
          "the high half decides whether a slot is empty"),
    # The decoder: what an import replaces, and when.
    Fault("replaced-before-checked", "import_wire", DECODE, "WireFault fault = {};\n", "WireFault fault = {};\n  if (bytes.size() > 60) data.recurrence.scratch.reset();\n",
          "a known defect: something goes before the last check"),
    Fault("scratch-kept", "import_wire", DECODE, "  data.recurrence.scratch.reset();\n", "", "the recurrent scratch outlives the import"),
    Fault("undo-history-kept", "import_wire", RING, "  undo_next_ = 0;\n  undo_count_ = 0;\n", "", "rollback rows of another sequence"),
    Fault("overlay-kept", "import_wire", DECODE, "    data.o1 = {};\n", "", "an O(1) overlay stays beside new rows"),
    Fault("nan-quieted", "import_wire", HALF, "return sign | 0x7F800000 | fraction << 13;", "return sign | 0x7F800000 | (fraction == 0 ? 0 : 0x400000) | fraction << 13;",
          "the signalling bit of a binary16 NaN is lost"),
    # The encoder.
    Fault("half-rounds-up", "round_trip", HALF, "if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;", "if (rest >= half) ++rounded;",
          "a known defect: subnormal ties go up, not to even"),
    Fault("nan-payload-lost", "round_trip", HALF, "(fraction == 0 ? 0x7E00 : 0x7C00 | fraction)", "(fraction == 0 ? 0x7E00 : 0x7E00 | fraction)",
          "a NaN's payload changes on the way out"),
    Fault("overflow-to-infinity", "round_trip", ENCODE, "if (!overflows_binary16(bits)) continue;", "if (!overflows_binary16(bits) || bits < 0x80000000) continue;",
          "a known defect: finite becomes infinite, here for one sign"),
    Fault("size-wraps", "round_trip", ENCODE, "if (head != 0 && live > (max_count - fixed) / head)", "if (head != 0 && live * head > max_count - fixed)",
          "the size computation overflows where it should refuse"),
    # Operations and kernels.
    Fault("window-off-by-one", "operations", "optimized/attend.cpp", "end > task.window ? end - task.window : 0", "end > task.window ? end - task.window + (task.window > 2 ? 1 : 0) : 0",
          "a window of more than two rows shows one fewer"),
    Fault("stale-trace", "operations", "optimized/layer_take_back.cpp", "        if (state() == LayerState::collecting) data_.o1.trace.keep(seq_len());\n", "",
          "a rollback leaves queries of positions that are gone"),
    Fault("eviction-tie", "operations", "optimized/layer_take_back.cpp", "weight_a > weight_b : a < b", "weight_a > weight_b : a > b",
          "of two equal weights the wrong row goes"),
    Fault("int8-truncates", "operations", "optimized/kernels/scalar_int8.cpp", "(wide > 127.0 ? 127.0 : wide) + 0.5)", "(wide > 127.0 ? 127.0 : wide) + 0.49)",
          "ties of int8 rounding go down"),
    Fault("overlap-unchecked", "arguments", "optimized/layer_attend.cpp", "  if (overlap(out, acc)) return", "  if (false) return",
          "two outputs may lie over each other"),
    Fault("scale-unchecked", "arguments", "optimized/layer_attend.cpp", "if (!is_finite(query.scale)) return", "if (query.scale != query.scale) return",
          "a NaN is refused and an infinity is not"),
    Fault("kernel-tail", "kernels", AVX2, "if (d < b.head_dim) sum_rest<H>", "if (d + 1 < b.head_dim) sum_rest<H>",
          "the last dimension of a row is left out"),
    Fault("kernel-reads-on", "kernels", AVX2, "_mm256_maskstore_ps(out + h * head_dim, mask, sum);", "_mm256_storeu_ps(out + h * head_dim, sum);",
          "a vector store past the end of the row"),
    Fault("kernel-skips-more", "kernels", AVX2, "if (p[h * stride + r] == 0) continue;", "if (p[h * stride + r] < 0x1p-126F) continue;",
          "weights that are subnormal or negative count as zero"),
    Fault("int8-tail", "kernels", AVX2_INT8, "  for (; d < head_dim; d += width)\n", "  for (; d + 1 < head_dim; d += width)\n",
          "a last dimension that stands alone is left out of a sum of int8 rows"),
    Fault("int8-reads-on", "kernels", AVX2_INT8, "__builtin_memcpy(some, v + r * head_dim, count);", "__builtin_memcpy(some, v + r * head_dim, width);",
          "integers past the end of the last row are read, and not used"),
    Fault("int8-half-down", "kernels", AVX2_INT8, "_CMP_GE_OQ", "_CMP_GT_OQ",
          "a half is rounded towards zero, by vectors only"),
    Fault("narrow-overflow-missed", "kernels", F16C, "_mm256_set1_ps(65520), _CMP_GE_OQ", "_mm256_set1_ps(65520), _CMP_GT_OQ",
          "65520 becomes infinite and nobody says so"),
    Fault("narrow-writes-on", "kernels", F16C, "__builtin_memcpy(out + 2 * i, &half, 2 * (n - i));", "__builtin_memcpy(out + 2 * i, &half, sizeof(half));",
          "whole registers are stored, past the end"),
    Fault("widen-quiets", "kernels", F16C, "(half & 0x8000) << 16 | 0x7F800000 |", "(half & 0x8000) << 16 | 0x7FC00000 |",
          "a signalling NaN becomes quiet, by vectors only"),
    Fault("rotation-of-later-rows", "kernels", AVX2_STATE, "{rotation.cos + first,", "{rotation.cos,",
          "from the ninth row on, the cosines begin anew"),
    Fault("rotation-lanes", "kernels", AVX2_STATE, "second_halves<H>(q, key, j + width, high);\n      j += lanes;", "second_halves<H>(q, key, j + width, low);\n      j += lanes;",
          "with an odd number of registers in half a head, eight products go to the wrong lanes"),
    Fault("rotation-sign", "kernels", AVX2_STATE, "q[first] * key.sin[first] + q[d]", "-q[first] * key.sin[first] + q[d]",
          "the second half of a pair turns the other way"),
    # Texts.
    Fault("case-shape-unchecked", "text_inputs", "certify/test_case.cpp", "if (!test.sinks.empty() && test.sinks.size() != heads) {", "if (test.sinks.size() > heads + 64) {",
          "a tensor that does not fit its case is taken"),
    Fault("digit-too-many", "text_inputs", "certify/test_case.cpp", "c >= 'a' && c <= 'f'", "c >= 'a' && c <= 'g'",
          "one character more counts as a digit"),
    Fault("tensor-shorter", "text_inputs", "certify/foreign/tensor_text.cpp", "if (text.size() != wanted) {", "if (text.size() > wanted) {",
          "a case's tensor may have fewer numbers than its shape says"),
    Fault("answer-shorter", "text_inputs", "certify/foreign/judge_case.cpp", "got.numbers->size() != size", "got.numbers->size() > size",
          "an engine may answer fewer numbers than it was asked for"),
    Fault("attends-what-is-not-there", "text_inputs", "certify/foreign/model.cpp", "if (step.n > layer.positions() || step.from", "if (step.from",
          "a difference below zero: more positions are asked for than are stored"),
    Fault("declared-group-of-any-kind", "text_inputs", "certify/foreign/precision.cpp", "if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1U << 20U) {",
          "if (value.get<std::uint64_t>() > 1U << 20U) {",
          "a number that is no count is converted into one"),
    Fault("percent-of-any-size", "text_inputs", "certify/stated_run.cpp", '"percent", 1, 10000)', '"percent", 0, any)',
          "a certificate asks for more cases than there can be, or for none"),
    Fault("vectors-of-nothing", "text_inputs", "certify/vectors.cpp", "if (report_.cases == 0) fault", "if (report_.cases > 1U << 30U) fault",
          "a file without a case holds"),
    Fault("shown-past-the-end", "text_inputs", "certify/record_fields.cpp", "if (size <= bytes_.size() - at_) return true;", "if (size <= bytes_.size() - at_ + 1) return true;",
          "`wire show` prints a byte that is not there"),
]
