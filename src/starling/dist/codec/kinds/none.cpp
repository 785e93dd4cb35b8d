#include "starling/dist/codec/codec_kinds.h"

namespace starling::dist {

void register_codec_none(CodecKinds& kinds) {
  kinds.add<NoSettings>("none", "gradients travel as they are", [](const NoSettings&) { return CodecPtr(); });
}

}  // namespace starling::dist
