#include "starling/dist/mesh/layout_choice.h"

namespace starling::dist {
namespace {

// Transformers: heads and hidden units are split, so that a block has one reduction in each direction after attention
// and one after the two dense layers.
std::vector<LayoutRule> megatron(const std::string& axis) {
  return {{"*qkv", axis, "qkv"},
          {"*attention.q", axis, "columns"},
          {"*attention.k", axis, "columns"},
          {"*attention.v", axis, "columns"},
          {"*cross.q", axis, "columns"},
          {"*cross.k", axis, "columns"},
          {"*cross.v", axis, "columns"},
          {"*attention.out", axis, "rows"},
          {"*cross.out", axis, "rows"},
          {"*fc1", axis, "columns"},
          {"*fc2", axis, "rows"},
          {"*embed.token", axis, "vocabulary"},
          {"*head", axis, "vocabulary"}};
}

// Outputs of every layer: activations are gathered between layers.
std::vector<LayoutRule> singa_feature(const std::string& axis) { return {{"*", axis, "columns", true}}; }

// Convolutions by rows of the batch, dense layers by their outputs, on the same workers: dense layers have most of the
// weights and few of the activations, so these are exchanged in place of gradients.
std::vector<LayoutRule> one_weird_trick(const std::string& axis) { return {{"*fc*", axis, "columns", true}}; }

// Rows of pictures: convolutions and pools exchange the rows at the borders; weights are whole.
std::vector<LayoutRule> spatial(const std::string& axis) {
  return {{std::string(kInputs), axis, std::string(kHeightWord)}};
}

// Rows of pictures and the filters at their positions: only borders are exchanged, and no worker has all weights.
std::vector<LayoutRule> cots(const std::string& axis) {
  return {{std::string(kInputs), axis, std::string(kHeightWord)}, {"*local*", axis, "positions", true}};
}

}  // namespace

const std::vector<LayoutPreset>& layout_presets() {
  static const std::vector<LayoutPreset> presets = {
      {"singa_batch", "nothing but rows of the batch (SINGA's partition by batch)", nullptr},
      {"singa_hybrid", "convolutions by rows, dense layers by their outputs (SINGA's hybrid partition)",
       one_weird_trick, true, true},
      {"megatron", "heads, hidden units and vocabulary of transformers over the axis beside data", megatron},
      {"fsdp", "every worker of the axis data stores a piece of all state: the same as zero: 3", nullptr},
      {"one_weird_trick", "convolutions by rows, layers called fc… by their outputs, both over the axis data",
       one_weird_trick, true, true},
      {"singa_feature", "outputs of every layer over the axis beside data (SINGA's partition by feature)",
       singa_feature},
      {"spatial", "rows of pictures over the axis beside data: convolutions and pools exchange their borders", spatial},
      {"cots",
       "rows of pictures and the filters of layers called local…, which are not shared between positions, over "
       "the axis beside data (COTS HPC, DistBelief)",
       cots}};
  return presets;
}

}  // namespace starling::dist
