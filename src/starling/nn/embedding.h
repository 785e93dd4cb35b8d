#pragma once

#include <optional>

#include "starling/nn/init.h"
#include "starling/nn/module.h"

namespace starling::nn {

struct EmbeddingOptions {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  double stddev = 1;                         // standard deviation of the normal initial values
  std::optional<std::int64_t> padding = {};  // row that starts as zeros and gets no gradient
  bool sparse = false;                       // row-sparse gradient: one entry per id
  Init init{};                               // replaces the normal initial values
  static Settings settings();
};

// Lookup of ids i64[…] below the vocabulary → rows […, width] of the weight.
class Embedding : public Module {
 public:
  explicit Embedding(const EmbeddingOptions& options);
  Tensor weight() const { return *weight_; }
  // Puts a parameter of another module in the place of the own weight: both train it (shared_weight.h).
  void share_weight(const Tensor& parameter);

 protected:
  Tensor forward(const Tensor& ids) override;

 private:
  Tensor* weight_;
  std::optional<std::int64_t> padding_;
  bool sparse_;
};

struct EmbeddingBagOptions {
  enum class Mode : std::uint8_t { sum, mean, max };
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  Mode mode = Mode::mean;
  double stddev = 1;
  std::optional<std::int64_t> padding = {};  // index left out of the bags
  bool sparse = false;
  Init init{};
  static Settings settings();
};

// Reduces the rows of each bag to one: ids i64[n, k], one bag per row → [n, width]; or (ids i64[m], offsets i64[n], and
// for sums per-id weights [m]).
class EmbeddingBag : public Module {
 public:
  explicit EmbeddingBag(const EmbeddingBagOptions& options);

 protected:
  Tensor forward(const Tensor& ids) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  EmbeddingBagOptions options_;
  Tensor* weight_;
};

struct LearnedPositionsOptions {
  std::int64_t tokens = 0;  // the longest sequence
  std::int64_t width = 0;
  double stddev = 0.02;
  Init init{};
  static Settings settings();
};
// x [n, t, width] plus a learned row for each position.
class LearnedPositions : public Module {
 public:
  explicit LearnedPositions(const LearnedPositionsOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Tensor* weight_;
};

struct SinusoidalPositionsOptions {
  double base = 10000;
  static Settings settings();
};
// x [n, t, width] plus sines (even elements) and cosines (odd ones) of the position, in wavelengths from 2π to base ·
// 2π.
class SinusoidalPositions : public Module {
 public:
  explicit SinusoidalPositions(const SinusoidalPositionsOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double base_;
};

struct RotaryOptions {
  double base = 10000;
  bool interleaved = false;  // pairs are neighbours; otherwise element i and i + d / 2
  static Settings settings();
};
// Rotary position embedding: rotates pairs of elements of [.., t, d] by angles that grow with the position, as
// attention does with queries and keys.
class Rotary : public Module {
 public:
  explicit Rotary(const RotaryOptions& options = {}) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  RotaryOptions options_;
};

}  // namespace starling::nn
