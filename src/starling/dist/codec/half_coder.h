#pragma once

#include "starling/dist/codec/codec.h"

namespace starling::dist {

// Values as 16-bit floats, without a residual: what rounding loses is lost.
struct HalfFunctions {
  void (*narrow)(const float*, std::uint16_t*, std::int64_t);
  void (*widen)(const std::uint16_t*, float*, std::int64_t);
  void (*add)(const std::uint16_t*, float*, std::int64_t);
};

class HalfCoder final : public Coder {
 public:
  explicit HalfCoder(HalfFunctions functions) : functions_(functions) {}
  bool by_line() const override { return false; }
  bool residual() const override { return false; }
  std::size_t wire_bytes(const CodedShape& shape) const override {
    return 2 * static_cast<std::size_t>(shape.values());
  }
  void encode(const CodedShape& shape, const float* x, float* /*residual*/, std::byte* wire) const override {
    functions_.narrow(x, reinterpret_cast<std::uint16_t*>(wire), shape.values());
  }
  void decode(const CodedShape& shape, const std::byte* wire, float* y) const override {
    functions_.widen(reinterpret_cast<const std::uint16_t*>(wire), y, shape.values());
  }
  void decode_add(const CodedShape& shape, const std::byte* wire, float* y) const override {
    functions_.add(reinterpret_cast<const std::uint16_t*>(wire), y, shape.values());
  }

 private:
  HalfFunctions functions_;
};

}  // namespace starling::dist
