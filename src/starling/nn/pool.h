#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"

namespace starling::nn {

struct PoolOptions {
  Sizes kernel = 2;
  Sizes stride = {};  // empty: equal to the kernel
  Sizes padding = 0;
  Sizes dilation = 1;
  bool ceil_mode = false;  // keeps a last window that reaches beyond the image
  static Settings settings();
};
struct AvgPoolOptions {
  Sizes kernel = 2;
  Sizes stride = {};
  Sizes padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor = 0;  // divides the sums; 0: the number of elements
  static Settings settings();
};
struct LpPoolOptions {
  double p = 2;
  Sizes kernel = 2;
  Sizes stride = {};
  bool ceil_mode = false;
  static Settings settings();
};
struct AdaptivePoolOptions {
  Sizes size = 1;  // of the output
  static Settings settings();
};

// Max pooling: the largest element of every window of [n, c, sizes..].
class MaxPool : public Module {
 protected:
  MaxPool(int axes, const PoolOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  int axes_;
  Shape kernel_, stride_, padding_, dilation_;
  bool ceil_mode_;
};
class MaxPool1d : public MaxPool {
 public:
  explicit MaxPool1d(const PoolOptions& options = {}) : MaxPool(1, options) {}
};
class MaxPool2d : public MaxPool {
 public:
  explicit MaxPool2d(const PoolOptions& options = {}) : MaxPool(2, options) {}
};
class MaxPool3d : public MaxPool {
 public:
  explicit MaxPool3d(const PoolOptions& options = {}) : MaxPool(3, options) {}
};

// Average pooling: the mean of every window.
class AvgPool : public Module {
 protected:
  AvgPool(int axes, const AvgPoolOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  int axes_;
  Shape kernel_, stride_, padding_;
  AvgPoolOptions options_;
};
class AvgPool1d : public AvgPool {
 public:
  explicit AvgPool1d(const AvgPoolOptions& options = {}) : AvgPool(1, options) {}
};
class AvgPool2d : public AvgPool {
 public:
  explicit AvgPool2d(const AvgPoolOptions& options = {}) : AvgPool(2, options) {}
};
class AvgPool3d : public AvgPool {
 public:
  explicit AvgPool3d(const AvgPoolOptions& options = {}) : AvgPool(3, options) {}
};

// Power-average pooling: (Σ |x|ᵖ)^(1/p) of every window.
class LpPool : public Module {
 protected:
  LpPool(int axes, const LpPoolOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  int axes_;
  double p_;
  Shape kernel_, stride_;
  bool ceil_mode_;
};
class LpPool1d : public LpPool {
 public:
  explicit LpPool1d(const LpPoolOptions& options = {}) : LpPool(1, options) {}
};
class LpPool2d : public LpPool {
 public:
  explicit LpPool2d(const LpPoolOptions& options = {}) : LpPool(2, options) {}
};
class LpPool3d : public LpPool {
 public:
  explicit LpPool3d(const LpPoolOptions& options = {}) : LpPool(3, options) {}
};

// Adaptive pooling: windows that cover the image evenly, so that the output has the requested size.
class AdaptivePool : public Module {
 protected:
  AdaptivePool(int axes, bool max, const AdaptivePoolOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  int axes_;
  bool max_;
  Shape size_;
};
class AdaptiveMaxPool1d : public AdaptivePool {
 public:
  explicit AdaptiveMaxPool1d(const AdaptivePoolOptions& options = {}) : AdaptivePool(1, true, options) {}
};
class AdaptiveMaxPool2d : public AdaptivePool {
 public:
  explicit AdaptiveMaxPool2d(const AdaptivePoolOptions& options = {}) : AdaptivePool(2, true, options) {}
};
class AdaptiveMaxPool3d : public AdaptivePool {
 public:
  explicit AdaptiveMaxPool3d(const AdaptivePoolOptions& options = {}) : AdaptivePool(3, true, options) {}
};
class AdaptiveAvgPool1d : public AdaptivePool {
 public:
  explicit AdaptiveAvgPool1d(const AdaptivePoolOptions& options = {}) : AdaptivePool(1, false, options) {}
};
class AdaptiveAvgPool2d : public AdaptivePool {
 public:
  explicit AdaptiveAvgPool2d(const AdaptivePoolOptions& options = {}) : AdaptivePool(2, false, options) {}
};
class AdaptiveAvgPool3d : public AdaptivePool {
 public:
  explicit AdaptiveAvgPool3d(const AdaptivePoolOptions& options = {}) : AdaptivePool(3, false, options) {}
};

// Global pooling: the mean, or the largest element, of every channel: [n, c, ...] → [n, c].
class GlobalAvgPool : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};
class GlobalMaxPool : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

}  // namespace starling::nn
