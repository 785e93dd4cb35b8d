#pragma once

#include "starling/nn/init.h"
#include "starling/nn/module.h"

namespace starling::nn {

struct ConvOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  Sizes kernel = 3;
  Sizes stride = 1;
  Sizes padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  double stddev = 0;  // standard deviation of a normal initial weight; 0: use `init`
  Sizes dilation = 1;
  Init init{};
  Init bias_init{};  // weight and bias default to uniform in ±1/√(fan-in)
  static Settings settings();
};
using Conv1dOptions = ConvOptions;
using Conv2dOptions = ConvOptions;
using Conv3dOptions = ConvOptions;

// Convolution of [n, in, sizes..] with one, two or three spatial axes; weight [out, in / groups, kernel..].
class Conv : public Module {
 protected:
  Conv(int axes, const ConvOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  int axes_;
  std::int64_t groups_;
  Shape stride_, padding_, dilation_;
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};
class Conv1d : public Conv {
 public:
  explicit Conv1d(const ConvOptions& options) : Conv(1, options) {}
};
class Conv2d : public Conv {
 public:
  explicit Conv2d(const ConvOptions& options) : Conv(2, options) {}
};
class Conv3d : public Conv {
 public:
  explicit Conv3d(const ConvOptions& options) : Conv(3, options) {}
};

struct ConvTransposeOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  Sizes kernel = 2;
  Sizes stride = 2;
  Sizes padding = 0;
  Sizes output_padding = 0;  // less than the stride: see ops/api/conv_transpose.h
  std::int64_t groups = 1;
  bool bias = true;
  Sizes dilation = 1;
  Init init{};
  Init bias_init{};  // weight and bias default to uniform in ±1/√(out / groups · kernel)
  static Settings settings();
};

// Transposed convolution, the gradient of a convolution for its input; weight [in, out / groups, kernel..].
class ConvTranspose : public Module {
 protected:
  ConvTranspose(int axes, const ConvTransposeOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  int axes_;
  std::int64_t groups_;
  Shape stride_, padding_, output_padding_, dilation_;
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};
class ConvTranspose1d : public ConvTranspose {
 public:
  explicit ConvTranspose1d(const ConvTransposeOptions& options) : ConvTranspose(1, options) {}
};
class ConvTranspose2d : public ConvTranspose {
 public:
  explicit ConvTranspose2d(const ConvTransposeOptions& options) : ConvTranspose(2, options) {}
};
class ConvTranspose3d : public ConvTranspose {
 public:
  explicit ConvTranspose3d(const ConvTransposeOptions& options) : ConvTranspose(3, options) {}
};

struct LocallyConnected2dOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t height = 0;  // of the images: every position has its own weights
  std::int64_t width = 0;
  Sizes kernel = 3;
  Sizes stride = 1;
  Sizes padding = 0;
  Sizes dilation = 1;
  bool bias = true;
  Init init{};
  Init bias_init{};  // weight and bias default to uniform in ±1/√(in · kernel)
  static Settings settings();
};

// Convolution without weight sharing between positions; weight [positions, out, in · kernel].
class LocallyConnected2d : public Module {
 public:
  explicit LocallyConnected2d(const LocallyConnected2dOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Shape sample_, kernel_, stride_, padding_, dilation_;
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

}  // namespace starling::nn
