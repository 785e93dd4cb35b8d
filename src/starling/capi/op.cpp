#include "starling/capi/guard.h"
#include "starling/ops/def/apply.h"

using namespace starling::capi;  // NOLINT(google-build-using-namespace): C functions stand outside

namespace {

// An attribute's value as graph files write it: [1, 2] for lists.
std::string attribute_text(const starling::ConfigNode& value) {
  if (!value.is_list()) return value.as_string();
  std::vector<std::string> items;
  for (const auto& item : value.as_list()) items.push_back(item.as_string());
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// How many inputs there are without the nulls at the end, which leave out what an op takes optionally.
int given_count(starling_tensor* const* inputs, int count) {
  while (inputs && count > 0 && !inputs[count - 1]) --count;
  return count;
}

}  // namespace

extern "C" starling_status starling_op(const char* name, starling_tensor* const* inputs, int count,
                                       const char* attributes, starling_tensor** results, int capacity, int* made) {
  return guarded([&] {
    given(name, "op", "the name of an op");
    std::vector<std::pair<std::string, std::string>> attrs;
    for (const auto& [key, value] : options_of(attributes, name).as_map())
      attrs.emplace_back(key, attribute_text(value));
    const auto in = inputs_of(inputs, given_count(inputs, count), name);
    give(starling::call(name, in, attrs), results, capacity, made, name);
  });
}
