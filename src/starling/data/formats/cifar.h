#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "starling/tensor/tensor.h"

namespace starling::data {

// CIFAR, binary version: records of one label (CIFAR-10) or a coarse and a fine label (CIFAR-100) and 3072 bytes, the
// red, green and blue planes of 32 × 32 pixels. Plain or gzipped.
enum class CifarKind { cifar10, cifar100 };

struct CifarPart {
  Tensor images;         // u8 [n, 3, 32, 32]
  Tensor labels;         // i64 [n]; the fine labels of CIFAR-100
  Tensor coarse_labels;  // i64 [n] for CIFAR-100, else undefined
};

inline constexpr std::uint64_t kCifarMostBytes = std::uint64_t{1} << 30;

CifarPart read_cifar(const std::filesystem::path& file, CifarKind kind);
CifarPart parse_cifar(std::span<const std::byte> file, const std::string& name, CifarKind kind);

}  // namespace starling::data
