#include "starling/ops/def/attrs/coded.h"

#include <cmath>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/coded_traffic.h"
#include "starling/kernels/kernel_table.h"

// Kernel of coded reductions (ops/families/coded.cpp). It runs on the comm lane, so it may block. Without a
// communicator the world is this rank alone.
namespace starling::dist {
namespace {

// Copies the operands where the results are not in their place; states are then changed in the results.
void copy_operands(const std::vector<std::size_t>& bytes, const kernels::Launch& launch) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (launch.out[i] != launch.in[i]) copy_bytes(launch.out[i], launch.in[i], bytes[i]);
  }
}

CodecPtr codec_of(const std::string& text) {
  try {
    return CodecChoice::parse(text).make();
  } catch (const Error& error) {
    fail("[coded_reduce] expected a codec as jobs give it, got {} ({})", text, error.what());
  }
}

double squares(const float* x, std::int64_t n) {
  double sums[4] = {0, 0, 0, 0};
  for (std::int64_t i = 0; i < n; ++i) sums[i % 4] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sums[0] + sums[1] + sums[2] + sums[3];
}

class CodedReduce final : public kernels::Plan {
 public:
  explicit CodedReduce(const kernels::PlanRequest& request)
      : attrs_(request.attrs.as<op::CodedReduceAttrs>()), codec_(codec_of(attrs_.codec.str())) {
    check(codec_ != nullptr, "[coded_reduce] expected a codec, got {}", attrs_.codec.str());
    each_ = attrs_.operands(request.in.size());
    for (const auto& in : request.in) bytes_.push_back(bytes_of(in));
    for (std::size_t i = 0; i < request.in.size(); i += each_) {
      const auto states = codec_->states(request.in[i].shape).size();
      check(states + 1 == each_ || states + 2 == each_, "[coded_reduce] expected {} states of each tensor, got {}",
            states, each_ - 1);
      states_ = states;
      shapes_.push_back(coded_shape(request.in[i].shape));
    }
    scratch_bytes = codec_->scratch_bytes(shapes_, static_cast<int>(attrs_.rank), static_cast<int>(attrs_.ranks));
  }

  void run(const kernels::Launch& launch) const override {
    copy_operands(bytes_, launch);
    Comm* comm = launch.context.comm;
    if (!comm) return;
    std::vector<CodedTensor> tensors;
    std::vector<double> coded(shapes_.size(), 0);
    for (std::size_t t = 0; t < shapes_.size(); ++t) {
      auto* const* out = outputs(launch, t);
      tensors.push_back({shapes_[t], out[0], out[0], {out + 1, states_}, &coded[t]});
    }
    const std::vector<double> given = look(tensors, launch);
    codec_->reduce(tensors, *comm, static_cast<std::byte*>(launch.scratch), attrs_.name.str());
    if (metered() && comm->size() > 1) tell(tensors, given, launch);
  }

 private:
  bool metered() const { return each_ == states_ + 2; }
  float* const* outputs(const kernels::Launch& launch, std::size_t t) const {
    return reinterpret_cast<float* const*>(launch.out + t * each_);
  }
  CodedTraffic traffic(const kernels::Launch& launch, std::size_t t) const {
    return CodedTraffic(outputs(launch, t)[each_ - 1]);
  }

  // Squares of the gradients that are looked at in this run; of others 0.
  std::vector<double> look(const std::vector<CodedTensor>& tensors, const kernels::Launch& launch) const {
    std::vector<double> given(tensors.size(), 0);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (metered() && states_ > 0 && traffic(launch, t).looks())
        given[t] = squares(tensors[t].x, tensors[t].shape.values());
    }
    return given;
  }

  void tell(const std::vector<CodedTensor>& tensors, const std::vector<double>& given,
            const kernels::Launch& launch) const {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      CodedTraffic told = traffic(launch, t);
      if (given[t] > 0) told.set_error(std::sqrt(squares(tensors[t].states[0], kept_values(t)) / given[t]));
      told.add(static_cast<double>(sizeof(float)) * static_cast<double>(tensors[t].shape.values()), *tensors[t].coded);
    }
  }
  std::int64_t kept_values(std::size_t t) const {
    return static_cast<std::int64_t>(bytes_[t * each_ + 1] / sizeof(float));
  }

  op::CodedReduceAttrs attrs_;
  CodecPtr codec_;
  std::size_t each_ = 1;    // operands of a tensor
  std::size_t states_ = 0;  // of them what the codec keeps; one more is what is told (CodedTraffic)
  std::vector<std::size_t> bytes_;
  std::vector<CodedShape> shapes_;
};

}  // namespace

void register_dist_coded(kernels::KernelTable& table) {
  table.add("coded_reduce", DeviceKind::cpu,
            {"comm", kernels::Accepts::contiguous,
             [](const kernels::PlanRequest& request) { return std::make_unique<CodedReduce>(request); }});
}

}  // namespace starling::dist
