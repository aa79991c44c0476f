#include "fuzz/field_map.hpp"

namespace kvcert::fuzz {
namespace {

class Walk {
 public:
  explicit Walk(ByteView record) : record_(record) {}

  /// The integer; 0 where it does not lie wholly in the buffer.
  std::uint64_t integer(Role role, std::size_t width) {
    const std::uint64_t value = field_at(record_, at_, width);
    add(role, width, width, 0);
    return value;
  }
  void array(Role role, std::uint64_t count, std::size_t width, std::size_t length_at) {
    add(role, count > record_.size() ? record_.size() : count * width, width, length_at);
  }
  std::size_t at() const { return at_; }
  bool done() const { return at_ == record_.size(); }
  std::vector<Field> finish() {
    add(Role::rest, record_.size(), 1, 0);
    return std::move(fields_);
  }

 private:
  void add(Role role, std::size_t size, std::size_t width, std::size_t length_at) {
    size = std::min(size, record_.size() - at_);
    if (size == 0) return;
    fields_.push_back({role, at_, size, width, length_at});
    at_ += size;
  }
  ByteView record_;
  std::size_t at_ = 0;
  std::vector<Field> fields_;
};

void walk_full(Walk& walk) {
  const std::size_t element = walk.integer(Role::body_flag, 4) == 1 ? 2 : 4;
  walk.integer(Role::seq_len, 4);
  const std::uint64_t heads = walk.integer(Role::kv_heads, 4);
  walk.integer(Role::head_dim, 4);
  const std::size_t linear_at = walk.at();
  const std::uint64_t linear_len = walk.integer(Role::linear_len, 4);
  const std::size_t importance_at = walk.at();
  const std::uint64_t imp_len = walk.integer(Role::imp_len, 4);
  walk.array(Role::vector, linear_len, 4, linear_at);
  walk.array(Role::importance, imp_len, 4, importance_at);
  for (std::uint64_t head = 0; head < heads && !walk.done(); ++head) {
    for (auto [length, tensor] : {std::pair{Role::k_len, Role::keys}, std::pair{Role::v_len, Role::values}}) {
      const std::size_t length_at = walk.at();
      const std::uint64_t count = walk.integer(length, 4);
      walk.array(tensor, count, element, length_at);
    }
  }
}

void walk_linear(Walk& walk) {
  walk.integer(Role::kv_heads, 4);
  walk.integer(Role::head_dim, 4);
  const std::size_t length_at = walk.at();
  const std::uint64_t length = walk.integer(Role::linear_len, 4);
  walk.array(Role::vector, length, 4, length_at);
}

void walk_bounded(Walk& walk, std::size_t element, std::size_t size) {
  std::uint64_t floats = 1;
  for (Role role : {Role::kv_heads, Role::head_dim, Role::window}) {
    floats *= std::min<std::uint64_t>(walk.integer(role, 4), size + 1);
    floats = std::min<std::uint64_t>(floats, size + 1);
  }
  walk.integer(Role::ring_len, 4);
  walk.integer(Role::ring_head, 4);
  walk.array(Role::ring_keys, floats, element, 0);
  walk.array(Role::ring_values, floats, element, 0);
}

}  // namespace

std::vector<Field> fields_of(ByteView record) {
  Walk walk(record);
  std::uint64_t kind = 0, f16 = 0;
  if (begins_with_magic(record)) {
    walk.integer(Role::magic, 4);
    walk.integer(Role::version, 4);
    walk.integer(Role::identity, 8);
    walk.integer(Role::layer, 4);
    kind = walk.integer(Role::kind, 1);
    f16 = walk.integer(Role::f16, 1);
    walk.integer(Role::reserved, 2);
    walk.integer(Role::position, 8);
  }
  if (kind == 1) {
    walk_linear(walk);
  } else if (kind == 2) {
    walk_bounded(walk, f16 == 1 ? 2 : 4, record.size());
  } else {
    walk_full(walk);
  }
  return walk.finish();
}

}  // namespace kvcert::fuzz
