#include "starling/kernels/cpu/codec/one_bit.h"

#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/routes/striped.h"

// 1-bit SGD (Seide et al. 2014, CNTK): a bit for each value and two means for each line, in both stages of the route,
// each with a residual of its own. CNTK's matrices lie column by column, so a line here is a column there.
namespace starling::dist {
namespace {

struct OneBitOptions {
  bool feedback = true;
  static Settings settings() {
    return {setting("feedback", &OneBitOptions::feedback,
                    "add what a step did not send to the next one; off, for studies: training stalls")};
  }
};

class OneBitCoder final : public Coder {
 public:
  bool by_line() const override { return true; }
  bool residual() const override { return true; }
  std::size_t wire_bytes(const CodedShape& shape) const override {
    return static_cast<std::size_t>(shape.lines) * kernels::one_bit_bytes(shape.width);
  }
  void encode(const CodedShape& shape, const float* x, float* residual, std::byte* wire) const override {
    for (std::int64_t l = 0; l < shape.lines; ++l) {
      float* kept = residual ? residual + l * shape.width : nullptr;
      kernels::encode_one_bit(x + l * shape.width, kept, shape.width, line(shape, wire, l));
    }
  }
  void decode(const CodedShape& shape, const std::byte* wire, float* y) const override {
    for (std::int64_t l = 0; l < shape.lines; ++l)
      kernels::decode_one_bit(line(shape, wire, l), y + l * shape.width, shape.width);
  }
  void decode_add(const CodedShape& shape, const std::byte* wire, float* y) const override {
    for (std::int64_t l = 0; l < shape.lines; ++l)
      kernels::add_one_bit(line(shape, wire, l), y + l * shape.width, shape.width);
  }

 private:
  template <class Byte>
  static Byte* line(const CodedShape& shape, Byte* wire, std::int64_t number) {
    return wire + static_cast<std::size_t>(number) * kernels::one_bit_bytes(shape.width);
  }
};

}  // namespace

void register_codec_one_bit(CodecKinds& kinds) {
  kinds.add<OneBitOptions>("one_bit",
                           "1-bit SGD: a bit a value and two means a line, what is lost is added to the next step",
                           [](const OneBitOptions& options) -> CodecPtr {
                             return std::make_shared<StripedCodec>(std::make_unique<OneBitCoder>(), options.feedback);
                           });
}

}  // namespace starling::dist
