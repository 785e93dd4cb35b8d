#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"

namespace starling::nn {

// Regularising noise while training; every layer here is the identity in eval mode.

struct DropoutOptions {
  double p = 0.5;
  static Settings settings();
};

// Zeroes each element with probability p and scales the rest by 1 / (1 - p).
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  explicit Dropout(const DropoutOptions& options) : Dropout(options.p) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

// Dropout of whole channels of [n, c, ...].
class ChannelDropout : public Module {
 public:
  explicit ChannelDropout(const DropoutOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

// Dropout for networks of selu: dropped elements become selu's lowest value, and all are scaled so that mean 0 and
// variance 1 are kept.
class AlphaDropout : public Module {
 public:
  explicit AlphaDropout(const DropoutOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

struct GaussianNoiseOptions {
  double stddev = 0.1;
  static Settings settings();
};
// Adds normal noise with mean 0.
class GaussianNoise : public Module {
 public:
  explicit GaussianNoise(const GaussianNoiseOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double stddev_;
};

}  // namespace starling::nn
