#include "starling/dist/codec/codec_kinds.h"

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

std::string CodecChoice::text() const {
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

nlohmann::json SettingType<dist::CodecChoice>::schema(SettingRange) {
  return {{"anyOf", {choice_schema(codec_kinds().names()), codec_kinds().schema()}}};
}

dist::CodecChoice SettingType<dist::CodecChoice>::read(const ConfigNode& node, SettingRange) {
  if (node.is_map()) return {codec_kinds().choose(node)};
  return {codec_kinds().choose_named(node.as_string(), node, ConfigNode::parse("", node.where()))};
}

nlohmann::json SettingType<dist::CodecChoice>::json(const dist::CodecChoice& value) {
  const auto& kind = *value.chosen.kind;
  nlohmann::json options = value.chosen.json();
  if (options == settings_json(kind.settings, kind.defaults.get())) return value.chosen.name;
  options["name"] = value.chosen.name;
  return options;
}

}  // namespace starling::detail
