// Speed of the codecs' inner loops on one core: GB of f32 gradients per second, encoded (with the residual, where there
// is one) and decoded into a sum, in pieces that fit the cache and in pieces that do not. Usage: bench_codec [rounds]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "starling/kernels/cpu/codec/one_bit.h"
#include "starling/kernels/cpu/codec/wire_half.h"
#include "starling/kernels/cpu/simd/target_choice.h"

namespace {

using namespace starling;

constexpr std::int64_t kWidth = 1024;  // values of a line

struct Buffers {
  std::vector<float> x, residual, y;
  std::vector<std::byte> wire;
  explicit Buffers(std::int64_t n)
      : x(static_cast<std::size_t>(n)),
        residual(static_cast<std::size_t>(n)),
        y(static_cast<std::size_t>(n)),
        wire(static_cast<std::size_t>(n) * 2 + 64) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (float& value : x) value = normal(generator);
  }
};

// Best of `rounds` times, in seconds.
double best(int rounds, const std::function<void()>& body) {
  double least = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

void measure(std::int64_t n, int rounds) {
  Buffers b(n);
  auto* half = reinterpret_cast<std::uint16_t*>(b.wire.data());
  const std::int64_t lines = n / kWidth;
  const auto each_line = [&](auto f) {
    for (std::int64_t l = 0; l < lines; ++l)
      f(l * kWidth, b.wire.data() + static_cast<std::size_t>(l) * kernels::one_bit_bytes(kWidth));
  };
  const auto tell = [&](const char* name, const std::function<void()>& body) {
    fmt::print("  {:<22} {:6.1f} GB/s\n", name, static_cast<double>(n) * 4e-9 / best(rounds, body));
  };
  fmt::print("{} KiB of gradients\n", n * 4 / 1024);
  tell("memcpy", [&] { std::memcpy(b.y.data(), b.x.data(), static_cast<std::size_t>(n) * 4); });
  tell("fp16 encode", [&] { kernels::to_wire_f16(b.x.data(), half, n); });
  tell("fp16 decode and add", [&] { kernels::add_wire_f16(half, b.y.data(), n); });
  tell("bf16 encode", [&] { kernels::to_wire_bf16(b.x.data(), half, n); });
  tell("bf16 decode and add", [&] { kernels::add_wire_bf16(half, b.y.data(), n); });
  tell("one_bit encode", [&] {
    each_line([&](std::int64_t at, std::byte* wire) {
      kernels::encode_one_bit(b.x.data() + at, b.residual.data() + at, kWidth, wire);
    });
  });
  tell("one_bit decode and add", [&] {
    each_line([&](std::int64_t at, const std::byte* wire) { kernels::add_one_bit(wire, b.y.data() + at, kWidth); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  kernels::choose_simd_target();
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
  measure(1 << 14, 20 * rounds);
  measure(1 << 22, rounds);
}
