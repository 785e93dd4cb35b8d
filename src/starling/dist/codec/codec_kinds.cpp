#include "starling/dist/codec/codec_kinds.h"

#include <algorithm>

#include "starling/base/file/glob.h"

namespace starling::dist {

void register_codecs(CodecKinds& into);  // generated

const CodecKinds& codec_kinds() {
  static const CodecKinds kinds = [] {
    CodecKinds made;
    register_codecs(made);
    return made;
  }();
  return kinds;
}

const LayerCodec* CodecChoice::layer(const std::string& weight) const {
  const auto found = std::ranges::find_if(layers, [&](const auto& one) { return glob_matches(one.name, weight); });
  return found == layers.end() ? nullptr : &*found;
}

CodecChoice CodecChoice::of(const std::string& weight) const {
  const LayerCodec* own = layer(weight);
  return {own ? own->chosen : chosen, {}};
}

std::string CodecChoice::text() const {
  check(layers.empty(), "[codec] expected the codec of one weight, got those of {} patterns", layers.size());
  nlohmann::json all = chosen.json();
  all["name"] = chosen.name;
  return all.dump();
}

CodecChoice CodecChoice::parse(const std::string& text) {
  return detail::SettingType<CodecChoice>::read(ConfigNode::parse(text, "codec"), {});
}

}  // namespace starling::dist

namespace starling::detail {

using dist::codec_kinds;

namespace {

using CodecSetting = SettingType<dist::CodecChoice>;

nlohmann::json one_schema() { return {{"anyOf", {choice_schema(codec_kinds().names()), codec_kinds().schema()}}}; }

dist::CodecChoice read_one(const ConfigNode& node) {
  if (node.is_map()) return {codec_kinds().choose(node), {}};
  return {codec_kinds().choose_named(node.as_string(), node, ConfigNode::parse("", node.where())), {}};
}

dist::CodecChoice read_layers(const ConfigNode& node) {
  node.allow_keys({"layers", "else"});
  dist::CodecChoice choice;
  for (const ConfigNode& item : node.at("layers").as_list()) {
    item.allow_keys({"name", "codec"});
    choice.layers.push_back({item.at("name").as_string(), read_one(item.at("codec")).chosen});
  }
  if (const auto other = node.find("else")) choice.chosen = read_one(*other).chosen;
  return choice;
}

nlohmann::json one_json(const Chosen<dist::CodecPtr>& chosen) {
  nlohmann::json options = chosen.json();
  if (options == settings_json(chosen.kind->settings, chosen.kind->defaults.get())) return chosen.name;
  options["name"] = chosen.name;
  return options;
}

}  // namespace

nlohmann::json CodecSetting::schema(SettingRange) {
  const nlohmann::json one = one_schema();
  nlohmann::json layer = {{"type", "object"},
                          {"properties", {{"name", {{"type", "string"}}}, {"codec", one}}},
                          {"required", {"name", "codec"}},
                          {"additionalProperties", false}};
  nlohmann::json layers = {{"type", "object"},
                           {"properties", {{"layers", list_schema(layer)}, {"else", one}}},
                           {"required", {"layers"}},
                           {"additionalProperties", false}};
  return {{"anyOf", {one["anyOf"][0], one["anyOf"][1], layers}}};
}

dist::CodecChoice CodecSetting::read(const ConfigNode& node, SettingRange) {
  return node.is_map() && node.find("layers") ? read_layers(node) : read_one(node);
}

nlohmann::json CodecSetting::json(const dist::CodecChoice& value) {
  if (value.layers.empty()) return one_json(value.chosen);
  nlohmann::json layers = nlohmann::json::array();
  for (const auto& [name, chosen] : value.layers) layers.push_back({{"name", name}, {"codec", one_json(chosen)}});
  return {{"layers", layers}, {"else", one_json(value.chosen)}};
}

}  // namespace starling::detail
