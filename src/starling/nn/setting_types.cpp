#include "starling/nn/setting_types.h"

#include <fmt/format.h>

namespace starling {
namespace nn {
namespace {

constexpr int kInitKinds = static_cast<int>(InitKind::dirac) + 1;

std::vector<std::string> init_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kInitKinds; ++i) names.emplace_back(name(static_cast<InitKind>(i)));
  return names;
}

}  // namespace

Settings Init::settings() {
  return {required(choice("kind", &Init::kind, init_names(), "how values begin")),
          setting("value", &Init::value, "constant: everywhere"),
          setting("low", &Init::low, "uniform: the lowest"),
          setting("high", &Init::high, "uniform: just above the highest"),
          setting("mean", &Init::mean, "normal, truncated_normal: the mean"),
          setting("stddev", &Init::stddev, "normal, truncated_normal, sparse: the standard deviation", {.min = 0}),
          setting("bound", &Init::bound, "truncated_normal: the farthest, in standard deviations", {.min = 0}),
          setting("gain", &Init::gain, "xavier, he, lecun, orthogonal: a further factor"),
          setting("fan_out", &Init::fan_out, "he: by the number of outputs instead of inputs"),
          setting("zeros", &Init::zeros, "sparse: the share of zeros in each column", {.min = 0, .max = 1}),
          setting("groups", &Init::groups, "dirac: so many blocks of channels", {.min = 1})};
}

}  // namespace nn

namespace detail {

using Json = nlohmann::json;

Json SettingType<nn::Sizes>::schema(SettingRange range) {
  const Json one = number_schema("integer", range);
  return {{"anyOf", {one, {{"type", "array"}, {"items", one}, {"maxItems", kMaxRank}}, {{"type", "null"}}}}};
}

nn::Sizes SettingType<nn::Sizes>::read(const ConfigNode& node, SettingRange range) {
  if (!node.is_list()) return node.as_int(int_range(range));
  Shape values;
  const auto items = node.as_list();
  if (items.size() > static_cast<std::size_t>(kMaxRank))
    node.refuse(fmt::format("at most {} numbers", kMaxRank), fmt::format("{}", items.size()));
  for (const auto& item : items) values.push_back(item.as_int(int_range(range)));
  return values;
}

Json SettingType<nn::Sizes>::json(const nn::Sizes& value) {
  const Shape& values = value.values();
  if (values.empty()) return nullptr;
  if (values.rank() == 1) return values[0];
  return std::vector<std::int64_t>(values.begin(), values.end());
}

Json SettingType<nn::Init>::schema(SettingRange) {
  return {{"anyOf", {choice_schema(nn::init_names()), settings_schema<nn::Init>()}}};
}

nn::Init SettingType<nn::Init>::read(const ConfigNode& node, SettingRange) {
  if (node.is_map()) return read_settings<nn::Init>(node);
  return {.kind = static_cast<nn::InitKind>(node.as_choice(nn::init_names()))};
}

Json SettingType<nn::Init>::json(const nn::Init& value) {
  Json all = settings_json(value);
  const Json defaults = settings_json(nn::Init{.kind = value.kind});
  return all == defaults ? Json(nn::name(value.kind)) : all;
}

}  // namespace detail
}  // namespace starling
