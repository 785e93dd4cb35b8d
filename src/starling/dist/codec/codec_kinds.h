#pragma once

#include <string>

#include "starling/base/config/kinds.h"
#include "starling/dist/codec/codec.h"

namespace starling::dist {

using CodecKinds = Kinds<CodecPtr>;

// Codecs by the names that jobs use, `codec: one_bit` or `codec: {name: top_k, share: 0.01}`; built from the files in
// codec/kinds. `none` makes a null pointer.
const CodecKinds& codec_kinds();

// A codec as an option of a strategy: a name, or a map of a name and options.
struct CodecChoice {
  Chosen<CodecPtr> chosen = codec_kinds().by_name("none");

  CodecPtr make() const { return chosen.make(); }
  bool none() const { return chosen.name == "none"; }
  std::string text() const;                           // as JSON with all options, for attributes of ops
  static CodecChoice parse(const std::string& text);  // from text(), or any map or name that a job may have
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
