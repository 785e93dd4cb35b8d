#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct ConvTranspose1dAttrs {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  static AttrFields fields() {
    return {field("stride", &ConvTranspose1dAttrs::stride), field("padding", &ConvTranspose1dAttrs::padding),
            field("output_padding", &ConvTranspose1dAttrs::output_padding),
            field("dilation", &ConvTranspose1dAttrs::dilation), field("groups", &ConvTranspose1dAttrs::groups)};
  }
};

struct ConvTranspose2dAttrs {
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair output_padding{0, 0};
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  static AttrFields fields() {
    return {field("stride", &ConvTranspose2dAttrs::stride), field("padding", &ConvTranspose2dAttrs::padding),
            field("output_padding", &ConvTranspose2dAttrs::output_padding),
            field("dilation", &ConvTranspose2dAttrs::dilation), field("groups", &ConvTranspose2dAttrs::groups)};
  }
};

struct ConvTranspose3dAttrs {
  Shape stride{1, 1, 1};
  Shape padding{0, 0, 0};
  Shape output_padding{0, 0, 0};
  Shape dilation{1, 1, 1};
  std::int64_t groups = 1;
  static AttrFields fields() {
    return {field("stride", &ConvTranspose3dAttrs::stride), field("padding", &ConvTranspose3dAttrs::padding),
            field("output_padding", &ConvTranspose3dAttrs::output_padding),
            field("dilation", &ConvTranspose3dAttrs::dilation), field("groups", &ConvTranspose3dAttrs::groups)};
  }
};

}  // namespace starling::op
