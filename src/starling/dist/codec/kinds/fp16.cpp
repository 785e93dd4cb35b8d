#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/half_coder.h"
#include "starling/dist/codec/routes/striped.h"
#include "starling/kernels/cpu/codec/wire_half.h"

namespace starling::dist {

void register_codec_fp16(CodecKinds& kinds) {
  kinds.add<NoSettings>("fp16", "f16 on the wire, sums in f32: half of the bytes; values beyond 65504 become that",
                        [](const NoSettings&) -> CodecPtr {
                          return std::make_shared<StripedCodec>(std::make_unique<HalfCoder>(
                              HalfFunctions{kernels::to_wire_f16, kernels::from_wire_f16, kernels::add_wire_f16}));
                        });
}

}  // namespace starling::dist
