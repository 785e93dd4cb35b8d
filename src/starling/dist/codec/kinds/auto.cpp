#include <algorithm>

#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/factors_codec.h"

// HybComm (Poseidon): each gradient in the form that takes least time in this world: as it is, as its factors, in 16
// bits, in one bit. What one_bit has kept of it leaves with the next exchange in another form.
namespace starling::dist {
namespace {

struct AutoOptions {
  enum class As { chosen, dense, bf16, one_bit } as = As::chosen;
  double gflops = 0;
  bool lossy = true;
  std::int64_t every = 100;
  double most_error = 10;
  static Settings settings() {
    using O = AutoOptions;
    return {
        setting("gflops", &O::gflops, "speed at which a worker multiplies factors, in GFLOP/s; 0: measured",
                {.min = 0, .max = 1e9}),
        setting("lossy", &O::lossy, "choose bf16 and one_bit, too; off: what a step loses is nothing"),
        setting("every", &O::every,
                "steps between two choices, by what workers waited for and how much one_bit keeps; 0: it chooses once",
                {.min = 0, .max = 1e9}),
        setting("most_error", &O::most_error,
                "norm of what one_bit may keep as a share of the gradient's; a gradient beyond travels otherwise",
                {.min = 0}),
        choice("as", &O::as, {"chosen", "dense", "bf16", "one_bit"}, "this form for all gradients: for studies")};
  }
};

class Auto final : public Codec {
 public:
  explicit Auto(const AutoOptions& options)
      : options_(options),
        half_(codec_kinds_made("bf16")),
        bit_(codec_kinds_made("one_bit")),
        flop_seconds_(options.gflops > 0 ? 1e-9 / options.gflops : 0) {}

  bool needs_costs() const override { return true; }
  bool only_factors() const override { return !options_.lossy && options_.as == AutoOptions::As::chosen; }
  std::int64_t choose_every() const override { return options_.as == AutoOptions::As::chosen ? options_.every : 0; }
  double most_error() const override { return options_.most_error; }

  bool by_factors(const FactorShape& shape, const WorldCosts& costs) const override {
    const GradientFacts facts{{shape.outputs, shape.inputs}, shape};
    return choose(facts, costs, {}) == GradientForm::factors;
  }

  std::optional<GradientForm> choose(const GradientFacts& facts, const WorldCosts& costs,
                                     std::span<const GradientForm> without) const override {
    if (options_.as != AutoOptions::As::chosen) return form();
    if (costs.ranks == 1) return GradientForm::dense;
    std::vector<GradientForm> forms{GradientForm::dense};
    const auto add = [&](GradientForm one) {
      if (std::ranges::find(without, one) == without.end()) forms.push_back(one);
    };
    add(GradientForm::factors);
    if (options_.lossy) add(GradientForm::bf16);
    if (options_.lossy) add(GradientForm::one_bit);
    WorldCosts own = costs;
    if (flop_seconds_ > 0) own.flop_seconds = flop_seconds_;
    return cheapest_form(forms, facts, own);
  }

  std::vector<CodecState> states(const Shape& shape) const override {
    return options_.lossy || options_.as != AutoOptions::As::chosen ? bit_->states(shape) : std::vector<CodecState>();
  }

  std::size_t scratch_bytes(std::span<const CodedShape> shapes, int rank, int ranks) const override {
    if (form() == GradientForm::dense) return 0;
    return of(form()).scratch_bytes(shapes, rank, ranks);
  }

  void reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch,
              std::string_view name) const override {
    if (form() == GradientForm::one_bit) return bit_->reduce(tensors, comm, scratch, name);
    std::vector<CodedTensor> whole(tensors.begin(), tensors.end());
    for (CodedTensor& tensor : whole) {
      release(tensor);
      tensor.x = tensor.y;
      tensor.states = {};
    }
    if (comm.size() == 1) return;
    if (form() == GradientForm::bf16) return half_->reduce(whole, comm, scratch, name);
    for (const CodedTensor& tensor : whole) {
      const std::int64_t n = tensor.shape.values();
      comm.all_reduce(tensor.y, tensor.y, n, DType::f32, ReduceOp::sum, {.name = name}).wait();
      if (tensor.coded != nullptr) *tensor.coded = static_cast<double>(sizeof(float)) * static_cast<double>(n);
    }
  }

 private:
  static CodecPtr codec_kinds_made(const char* name) { return codec_kinds().by_name(name).make(); }
  // Form of reduce(); of gradients whose form is chosen, their program says it by `as`.
  GradientForm form() const {
    switch (options_.as) {
      case AutoOptions::As::bf16: return GradientForm::bf16;
      case AutoOptions::As::one_bit: return GradientForm::one_bit;
      default: return GradientForm::dense;
    }
  }
  const Codec& of(GradientForm form) const { return form == GradientForm::bf16 ? *half_ : *bit_; }

  // y = x + what was kept, which is not any more.
  static void release(const CodedTensor& tensor) {
    for (std::int64_t i = 0; i < tensor.shape.values(); ++i)
      tensor.y[i] = tensor.x[i] + (tensor.states.empty() ? 0.0F : tensor.states[0][i]);
    if (!tensor.states.empty()) std::fill_n(tensor.states[0], tensor.shape.values(), 0.0F);
  }

  AutoOptions options_;
  CodecPtr half_, bit_;
  double flop_seconds_;  // 0: as measured
};

}  // namespace

void register_codec_auto(CodecKinds& kinds) {
  kinds.add<AutoOptions>("auto",
                         "each gradient as it is, as its factors, in 16 bits or in one, whichever is faster by what "
                         "messages, products and coding take here; chosen again while training goes on",
                         [](const AutoOptions& options) -> CodecPtr { return std::make_shared<Auto>(options); });
}

}  // namespace starling::dist
