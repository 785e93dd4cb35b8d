#include "starling/train/job_data.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/data/fashion_mnist.h"
#include "starling/zoo/zoo.h"

namespace starling {
namespace {

Tensor shaped(const Tensor& images, const ModelJob& model) {
  Shape shape = job_recipe(model).fields[0].sample;
  const Shape sample = slice_rows(images, 0, 1).shape();
  check(shape.numel() == sample.numel(), "[train] expected samples of {} for {}, got {} in the data set",
        to_string(shape), model.name, to_string(sample));
  shape.insert(0, images.size(0));
  return view_of(images, shape, contiguous_strides(shape), 0);
}

LabelledSet load(Split split, const Job& job, std::int64_t limit) {
  FashionMnistOptions options{.mean = static_cast<float>(job.data.mean), .std = static_cast<float>(job.data.std)};
  if (!job.data.folder.empty()) options.folder = job.data.folder;
  const LabelledImages all = load_fashion_mnist(split, options);
  const std::int64_t count = limit > 0 ? std::min(limit, all.images.size(0)) : all.images.size(0);
  LabelledSet set{shaped(slice_rows(all.images, 0, count), job.model), slice_rows(all.labels, 0, count)};
  const auto* labels = set.y.data<std::int64_t>();
  const auto largest = count > 0 ? *std::max_element(labels, labels + count) : 0;
  check(largest < job.model.classes, "[train] expected model.classes above the largest label {}, got {}", largest,
        job.model.classes);
  return set;
}

}  // namespace

zoo::Recipe job_recipe(const ModelJob& model) {
  zoo::Net net = zoo::with(zoo::nets().by_name(model.name), {{"classes", model.classes}});
  if (!model.dropout && zoo::has_option(net, "dropout")) net = zoo::with(net, {{"dropout", 0}});
  return net.make();
}

Tensor slice_rows(const Tensor& tensor, std::int64_t begin, std::int64_t count) {
  Shape shape = tensor.shape();
  shape[0] = count;
  return view_of(tensor, shape, tensor.strides(), begin * tensor.strides()[0]);
}

JobData load_job_data(const Job& job) {
  return {load(Split::train, job, job.data.train_limit), load(Split::test, job, job.data.test_limit)};
}

}  // namespace starling
