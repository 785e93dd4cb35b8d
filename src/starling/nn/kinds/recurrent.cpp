#include "starling/nn/recurrent.h"

#include "starling/nn/layer_kinds.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings CellOptions::settings() {
  return {required(setting("hidden", &CellOptions::hidden, "width of the state", {.min = 1})),
          setting("bias", &CellOptions::bias, "whether there are two"),
          setting("relu", &CellOptions::relu, "rnn_cell only: relu instead of tanh")};
}

namespace {

// Options of recurrent layers in job files. Samples are sequences [t, in]: the batch is always the first axis here.
struct SequenceOptions {
  enum class Output : std::uint8_t { all, last };
  std::int64_t hidden = 0;
  std::int64_t layers = 1;
  bool bidirectional = false;
  double dropout = 0;
  bool bias = true;
  bool relu = false;
  Output output = Output::all;
  static Settings settings() {
    using O = SequenceOptions;
    return {required(setting("hidden", &O::hidden, "width of the state", {.min = 1})),
            setting("layers", &O::layers, "one upon another", {.min = 1}),
            setting("bidirectional", &O::bidirectional, "also from the last step to the first"),
            setting("dropout", &O::dropout, "between layers, less than 1", {.min = 0, .max = 1}),
            setting("bias", &O::bias, "whether there are two"),
            setting("relu", &O::relu, "rnn only: relu instead of tanh"),
            choice("output", &O::output, {"all", "last"},
                   "outputs of all steps [t, width], or the last state of the last layer [width]")};
  }
};

template <class M>
void add_recurrent(LayerKinds& kinds, const char* name, const char* doc) {
  add_layer<SequenceOptions>(
      kinds, name, doc, [name](const SequenceOptions& o, const TensorType& sample) -> std::shared_ptr<Module> {
        check(sample.shape.rank() == 2, "[{}] expected samples [t, width], got {}", name, to_string(sample));
        auto layer = std::make_shared<M>(RecurrentOptions{.in = sample.shape[1],
                                                          .hidden = o.hidden,
                                                          .layers = o.layers,
                                                          .bidirectional = o.bidirectional,
                                                          .dropout = o.dropout,
                                                          .batch_first = true,
                                                          .bias = o.bias,
                                                          .relu = o.relu});
        if (o.output == SequenceOptions::Output::all) return layer;
        return std::make_shared<LastState>(layer, o.bidirectional);
      });
}

template <class M>
void add_cell(LayerKinds& kinds, const char* name, const char* doc, std::size_t most) {
  add_joining_layer<CellOptions>(kinds, name, doc, 1, most,
                                 [name](const CellOptions& options, std::span<const TensorType> samples) {
                                   CellOptions o = options;
                                   o.in = channels_of(name, samples[0], 0);
                                   return M(o);
                                 });
}

}  // namespace
}  // namespace nn

void register_layer_recurrent(nn::LayerKinds& kinds) {
  nn::add_recurrent<nn::Rnn>(kinds, "rnn", "Plain recurrent layers over sequences.");
  nn::add_recurrent<nn::Gru>(kinds, "gru", "Gated recurrent units over sequences.");
  nn::add_recurrent<nn::Lstm>(kinds, "lstm", "Long short-term memory over sequences.");
  nn::add_cell<nn::RnnCell>(kinds, "rnn_cell", "One step of a plain recurrent layer: (x, h) to h.", 2);
  nn::add_cell<nn::GruCell>(kinds, "gru_cell", "One step of gated recurrent units: (x, h) to h.", 2);
  nn::add_cell<nn::LstmCell>(kinds, "lstm_cell", "One step of long short-term memory: (x, h, c) to h.", 3);
}

}  // namespace starling
