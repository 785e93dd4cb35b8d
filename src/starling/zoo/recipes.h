#pragma once

#include <algorithm>
#include <cmath>

#include "starling/zoo/table.h"

namespace starling::zoo {

// Helpers shared by the files of zoo/nets.

// Published number of channels or units, scaled by the width factor.
inline std::int64_t scaled(std::int64_t published, double width) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(published) * width));
}

inline std::int64_t or_published(std::int64_t wanted, std::int64_t published) {
  return wanted > 0 ? wanted : published;
}

// Factory of a shared module from one that returns it by value.
template <class F>
std::function<std::shared_ptr<nn::Module>()> maker(F make) {
  return [make = std::move(make)] { return std::make_shared<decltype(make())>(make()); };
}

// Recipe of a network with one class per sample; `make` returns the module by value.
template <class F>
Recipe classifier(Field input, std::int64_t classes, F make) {
  return {maker(std::move(make)), {input, {.below = classes}}, "classify"};
}
template <class F>
Recipe image_classifier(const Shape& sample, std::int64_t classes, F make) {
  return classifier({.sample = sample}, classes, std::move(make));
}
// Recipe of a language model: token ids to the next token at every position.
template <class F>
Recipe language_model(std::int64_t vocabulary, std::int64_t tokens, F make) {
  const Field ids{.sample = {tokens}, .below = vocabulary};
  return {maker(std::move(make)), {ids, ids}, "next_token"};
}

// Settings common to many networks; `Options` has a member of that name.
template <class Options>
Setting classes_setting() {
  return setting("classes", &Options::classes, "number of classes; from the data unless given", {.min = 1, .max = 1e6});
}
template <class Options>
Setting channels_setting() {
  return setting("channels", &Options::channels, "channels of the images; from the data unless given",
                 {.min = 1, .max = 4096});
}
template <class Options>
Setting image_setting(double min) {
  return setting("image", &Options::image, "height and width of the images; from the data unless given",
                 {.min = min, .max = 8192});
}
template <class Options>
Setting width_setting() {
  return setting("width", &Options::width, "channels and units of all layers, as a share of the published ones",
                 {.min = 1e-3, .max = 16});
}
template <class Options>
Setting dropout_setting(const char* doc) {
  return setting("dropout", &Options::dropout, doc, {.min = 0, .max = 0.99});
}
template <class Options>
Setting vocabulary_setting() {
  return setting("vocabulary", &Options::vocabulary, "number of token ids; from the data unless given",
                 {.min = 2, .max = 1e8});
}
template <class Options>
Setting tokens_setting() {
  return setting("tokens", &Options::tokens, "tokens of a sample; from the data unless given", {.min = 1, .max = 1e6});
}

}  // namespace starling::zoo
