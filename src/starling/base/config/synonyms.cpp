#include "starling/base/config/synonyms.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace starling {
namespace {

// Words that say nothing of what is counted: batch_size and num_classes are batch and classes.
constexpr std::array<std::string_view, 9> kFillers = {"num",   "n",    "number", "of",  "max",
                                                      "total", "size", "count",  "name"};

// Words of other frameworks and papers, and what they are called here, the likeliest first.
const std::multimap<std::string_view, std::string_view>& known_synonyms() {
  static const std::multimap<std::string_view, std::string_view> all = {{"learning_rate", "lr"},
                                                                        {"step_size", "lr"},
                                                                        {"wd", "weight_decay"},
                                                                        {"l2", "weight_decay"},
                                                                        {"betas", "beta1"},
                                                                        {"epsilon", "eps"},
                                                                        {"path", "folder"},
                                                                        {"path", "file"},
                                                                        {"path", "files"},
                                                                        {"path", "train"},
                                                                        {"dir", "folder"},
                                                                        {"directory", "folder"},
                                                                        {"root", "folder"},
                                                                        {"data_dir", "folder"},
                                                                        {"output", "folder"},
                                                                        {"output_dir", "folder"},
                                                                        {"save_dir", "folder"},
                                                                        {"log_dir", "folder"},
                                                                        {"run_dir", "folder"},
                                                                        {"filename", "file"},
                                                                        {"file", "files"},
                                                                        {"file", "train"},
                                                                        {"files", "train"},
                                                                        {"dataset", "data"},
                                                                        {"datasets", "data"},
                                                                        {"network", "model"},
                                                                        {"net", "model"},
                                                                        {"arch", "model"},
                                                                        {"architecture", "model"},
                                                                        {"type", "name"},
                                                                        {"kind", "name"},
                                                                        {"optim", "optimizer"},
                                                                        {"optimiser", "optimizer"},
                                                                        {"solver", "optimizer"},
                                                                        {"scheduler", "schedule"},
                                                                        {"lr_scheduler", "schedule"},
                                                                        {"lr_schedule", "schedule"},
                                                                        {"training", "train"},
                                                                        {"trainer", "train"},
                                                                        {"distributed", "distribute"},
                                                                        {"dist", "distribute"},
                                                                        {"parallel", "distribute"},
                                                                        {"logging", "monitor"},
                                                                        {"tensorboard", "monitor"},
                                                                        {"iterations", "steps"},
                                                                        {"max_iter", "steps"},
                                                                        {"random_seed", "seed"},
                                                                        {"random_state", "seed"},
                                                                        {"loss", "objective"},
                                                                        {"criterion", "objective"},
                                                                        {"task", "objective"},
                                                                        {"dtype", "precision"},
                                                                        {"amp", "precision"},
                                                                        {"float", "f32"},
                                                                        {"float32", "f32"},
                                                                        {"fp32", "f32"},
                                                                        {"single", "f32"},
                                                                        {"float16", "f16"},
                                                                        {"fp16", "f16"},
                                                                        {"half", "f16"},
                                                                        {"mixed", "bf16"},
                                                                        {"bfloat16", "bf16"},
                                                                        {"float64", "f64"},
                                                                        {"double", "f64"},
                                                                        {"grad_clip", "clip_norm"},
                                                                        {"gradient_clip", "clip_norm"},
                                                                        {"clip_grad_norm", "clip_norm"},
                                                                        {"max_grad_norm", "clip_norm"},
                                                                        {"accumulate_grad_batches", "accumulate"},
                                                                        {"gradient_accumulation_steps", "accumulate"},
                                                                        {"save_every", "checkpoint_every"},
                                                                        {"eval_every", "evaluate_every"},
                                                                        {"val_every", "evaluate_every"},
                                                                        {"early_stopping", "early_stop"},
                                                                        {"ema", "average"},
                                                                        {"swa", "average"},
                                                                        {"monitor_metric", "best"},
                                                                        {"ddp", "allreduce"},
                                                                        {"data_parallel", "allreduce"},
                                                                        {"horovod", "allreduce"},
                                                                        {"sync", "allreduce"},
                                                                        {"ssgd", "allreduce"},
                                                                        {"async", "hogwild"},
                                                                        {"asgd", "hogwild"},
                                                                        {"fedavg", "local_sgd"},
                                                                        {"world_size", "workers"},
                                                                        {"gpus", "workers"},
                                                                        {"nproc", "workers"},
                                                                        {"nproc_per_node", "workers"},
                                                                        {"processes", "workers"},
                                                                        {"ranks", "workers"},
                                                                        {"nccl", "auto"},
                                                                        {"val_split", "valid_share"},
                                                                        {"validation_split", "valid_share"},
                                                                        {"test_split", "test_share"},
                                                                        {"test_size", "test_share"},
                                                                        {"target", "label"},
                                                                        {"target_column", "label"},
                                                                        {"label_column", "label"},
                                                                        {"columns", "features"},
                                                                        {"sep", "separator"},
                                                                        {"delimiter", "separator"},
                                                                        {"categorical", "categories"},
                                                                        {"vocab", "vocabulary"},
                                                                        {"vocab_size", "vocabulary"},
                                                                        {"seq_len", "tokens"},
                                                                        {"sequence_length", "tokens"},
                                                                        {"context_length", "tokens"},
                                                                        {"block_size", "tokens"},
                                                                        {"image_size", "image"},
                                                                        {"img_size", "image"},
                                                                        {"in_channels", "channels"},
                                                                        {"in_features", "inputs"},
                                                                        {"input_size", "inputs"},
                                                                        {"d_model", "width"},
                                                                        {"embed_dim", "width"},
                                                                        {"hidden_dim", "hidden"},
                                                                        {"hidden_units", "hidden"},
                                                                        {"n_head", "heads"},
                                                                        {"num_layers", "depth"},
                                                                        {"n_layer", "depth"},
                                                                        {"dropout_rate", "dropout"},
                                                                        {"out_features", "out"},
                                                                        {"out_channels", "out"},
                                                                        {"units", "out"},
                                                                        {"filters", "out"},
                                                                        {"kernel_size", "kernel"},
                                                                        {"dense", "linear"},
                                                                        {"fc", "linear"},
                                                                        {"fully_connected", "linear"},
                                                                        {"conv", "conv2d"},
                                                                        {"maxpool", "max_pool2d"},
                                                                        {"maxpool2d", "max_pool2d"},
                                                                        {"batchnorm", "batch_norm2d"},
                                                                        {"batchnorm2d", "batch_norm2d"},
                                                                        {"layernorm", "layer_norm"},
                                                                        {"cross_entropy", "classify"},
                                                                        {"crossentropy", "classify"},
                                                                        {"mse_loss", "regress"},
                                                                        {"mse", "regress"},
                                                                        {"regression", "regress"},
                                                                        {"classification", "classify"},
                                                                        {"bce", "multi_label"},
                                                                        {"acc", "accuracy"},
                                                                        {"horizontal_flip", "flip"},
                                                                        {"random_flip", "flip"},
                                                                        {"to_tensor", "convert"},
                                                                        {"layers", "body"},
                                                                        {"momentum_sgd", "sgd"}};
  return all;
}

// The word without fillers: "classes" of "num_classes".
std::string core_of(std::string_view word) {
  std::string core;
  while (!word.empty()) {
    const auto end = std::min(word.find('_'), word.size());
    const std::string_view part = word.substr(0, end);
    if (std::find(kFillers.begin(), kFillers.end(), part) == kFillers.end())
      core += (core.empty() ? "" : "_") + std::string(part);
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return core;
}

}  // namespace

std::string synonym(std::string_view word, const std::vector<std::string>& candidates) {
  std::string lower(word);
  for (char& c : lower) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto [begin, end] = known_synonyms().equal_range(lower);
  for (auto it = begin; it != end; ++it) {
    if (std::find(candidates.begin(), candidates.end(), it->second) != candidates.end()) return std::string(it->second);
  }
  const std::string core = core_of(lower);
  for (const auto& candidate : candidates) {
    if (!core.empty() && candidate != word && core_of(candidate) == core) return candidate;
  }
  return "";
}

}  // namespace starling
