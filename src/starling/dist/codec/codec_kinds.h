#pragma once

#include <string>
#include <vector>

#include "starling/base/config/kinds.h"
#include "starling/dist/codec/codec.h"

namespace starling::dist {

using CodecKinds = Kinds<CodecPtr>;

// Codecs by the names that jobs use, `codec: one_bit` or `codec: {name: top_k, share: 0.01}`; built from the files in
// codec/kinds. `none` makes a null pointer.
const CodecKinds& codec_kinds();

// Codec of the weights whose names match a pattern ('*': any text).
struct LayerCodec {
  std::string name{};
  Chosen<CodecPtr> chosen{};
};

// A codec as an option of a strategy: a name, a map of a name and options, or single layers' codecs and that of all
// others, {layers: [{name: "fc*", codec: factors}], else: bf16}.
struct CodecChoice {
  Chosen<CodecPtr> chosen = codec_kinds().by_name("none");
  std::vector<LayerCodec> layers{};  // the first that matches; others: chosen

  CodecPtr make() const { return chosen.make(); }  // not of single layers
  bool none() const { return chosen.name == "none" && layers.empty(); }
  std::string label() const { return layers.empty() ? chosen.name : "codecs by layer"; }
  const LayerCodec* layer(const std::string& weight) const;  // null: no pattern matches
  CodecChoice of(const std::string& weight) const;           // of one weight
  std::string text() const;                                  // as JSON with all options, for attributes of ops
  static CodecChoice parse(const std::string& text);         // from text(), or any map or name that a job may have
};

}  // namespace starling::dist

namespace starling::detail {

template <>
struct SettingType<dist::CodecChoice> {
  static nlohmann::json schema(SettingRange range);
  static dist::CodecChoice read(const ConfigNode& node, SettingRange range);
  static nlohmann::json json(const dist::CodecChoice& value);  // the bare name where no option differs
};

}  // namespace starling::detail
