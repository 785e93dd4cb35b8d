#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/half_coder.h"
#include "starling/dist/codec/routes/striped.h"
#include "starling/kernels/cpu/codec/wire_half.h"

namespace starling::dist {

void register_codec_bf16(CodecKinds& kinds) {
  kinds.add<NoSettings>("bf16",
                        "bf16 on the wire, sums in f32: half of the bytes, the range of f32, 8 bits of precision",
                        [](const NoSettings&) -> CodecPtr {
                          return std::make_shared<StripedCodec>(std::make_unique<HalfCoder>(
                              HalfFunctions{kernels::to_wire_bf16, kernels::from_wire_bf16, kernels::add_wire_bf16}));
                        });
}

}  // namespace starling::dist
