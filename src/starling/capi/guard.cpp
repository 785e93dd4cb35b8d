#include "starling/capi/guard.h"

#include "starling/base/version.h"
#include "starling/ops/api/random.h"

namespace starling::capi {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

}  // namespace

starling_status failed(starling_status status, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {
    last_error().clear();  // no memory for the text: the status is all there is
  }
  return status;
}

std::string text_of(const char* text) { return text ? text : ""; }

ConfigNode options_of(const char* text, const char* who) {
  constexpr const char* kBlank = " \t\r\n";
  std::string yaml = text_of(text);
  const auto first = yaml.find_first_not_of(kBlank);
  if (first == std::string::npos) return ConfigNode::parse("{}", who);
  yaml.resize(yaml.find_last_not_of(kBlank) + 1);
  const bool bare = yaml.find('\n', first) == std::string::npos && yaml[first] != '{' && yaml[first] != '[';
  // A comment ends with its line: the brace stands on the next one.
  return ConfigNode::parse(bare ? "{ " + yaml.substr(first) + "\n}" : yaml, who);
}

Shape shape_of(const int64_t* sizes, int rank, const char* who) {
  if (rank < 0 || rank > kMaxRank)
    throw BadArgument(fmt::format("[{}] expected a rank from 0 to {}, got {}", who, kMaxRank, rank));
  if (rank > 0) given(sizes, who, "the sizes of the shape");
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] < 0) throw BadArgument(fmt::format("[{}] expected sizes from 0 on, got {}", who, sizes[i]));
    shape.push_back(sizes[i]);
  }
  return shape;
}

std::vector<Tensor> inputs_of(starling_tensor* const* inputs, int count, const char* who) {
  if (count < 0) throw BadArgument(fmt::format("[{}] expected a count from 0 on, got {}", who, count));
  if (count > 0) given(inputs, who, "tensors");
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) {
    if (!inputs[i]) throw BadArgument(fmt::format("[{}] expected a tensor as input {}, got null", who, i));
    all.push_back(inputs[i]->value);
  }
  return all;
}

void give(std::span<const Tensor> results, starling_tensor** into, int capacity, int* made, const char* who) {
  given(made, who, "a place for the number of results");
  if (static_cast<int>(results.size()) > capacity)
    throw BadArgument(fmt::format("[{}] expected room for {} results, got {}", who, results.size(), capacity));
  if (!results.empty()) given(into, who, "a place for the results");
  std::vector<std::unique_ptr<starling_tensor>> handles;
  for (const Tensor& result : results) handles.push_back(std::make_unique<starling_tensor>(starling_tensor{result}));
  for (std::size_t i = 0; i < handles.size(); ++i) into[i] = handles[i].release();
  *made = static_cast<int>(results.size());
}

}  // namespace starling::capi

using namespace starling::capi;  // NOLINT(google-build-using-namespace): C functions stand outside

extern "C" {

const char* starling_error(void) { return last_error().c_str(); }
int starling_c_version(void) { return STARLING_C_VERSION; }
const char* starling_version(void) { return starling::kVersion; }
starling_status starling_seed(uint64_t seed) {
  return guarded([&] { starling::manual_seed(seed); });
}

}  // extern "C"
