// Which kernels this machine can run, which ones a layer gets, and which ones really ran.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kvcert/error.hpp"
#include "optimized/isa.hpp"

namespace kvcert::optimized {

namespace kernels {
struct Table;
}

/// "scalar", "avx2": the spelling of KVCERT_ISA.
std::string_view name(Isa isa);
/// The ISA of that exact name, known to this version whether or not this machine has it.
std::optional<Isa> isa_from_name(std::string_view name);

/// Whether this build has kernels for it, the CPU has the instructions, the operating system saves the registers, and
/// KVCERT_CPU, read at the first such question, does not leave out what it needs.
bool is_available(Isa isa);
/// Every available ISA, from the most portable to the fastest. Never empty: scalar always runs.
std::vector<Isa> available_isas();

/// What create(geometry) uses: KVCERT_ISA where it is set, else the fastest available. Reads the environment at each
/// call. Errors: invalid_argument (an unknown or unavailable name, the empty one included: running other kernels than
/// those asked for would falsify what is measured), out_of_memory.
Result<Isa> default_isa();

/// Kernel calls of this ISA in this process so far: counted by the kernels themselves, one per call, so that a harness
/// can show which ones ran. Monotone; safe from any thread; 0 for an ISA that this build does not have.
std::uint64_t kernel_calls(Isa isa);

/// The same for each table of kernels in this build: what an ISA's calls consist of.
struct KernelCount {
  Isa isa;
  std::string_view table;  ///< "f32", "int8", "state", "binary16", "f16c"
  std::uint64_t calls;
};
std::vector<KernelCount> kernel_counts();

/// The kernels of an available ISA; nullptr for one that is not.
const kernels::Table* kernel_table(Isa isa);

}  // namespace kvcert::optimized
