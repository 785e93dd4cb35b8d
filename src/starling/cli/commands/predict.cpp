#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/predict/predict_input.h"
#include "starling/cli/predict/predict_output.h"
#include "starling/cli/run_model.h"
#include "starling/data/tokenizers/tokenizer.h"
#include "starling/train/saved_model/generate.h"
#include "starling/train/saved_model/sequences.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

struct PredictArguments {
  std::string model;
  std::vector<std::string> inputs;
  std::string out;
  std::string prompt;
  train::GenerateOptions generate;
  std::int64_t top = 3;
  std::int64_t batch = 256;
  int threads = 0;
  bool json = false;
  bool csv_header = false;
};

// The saved model, or that of a run in its newest state.
SavedModel load_model(const PredictArguments& options) {
  const fs::path folder(options.model);
  if (is_saved_model(folder)) return SavedModel::load(folder, {.threads = options.threads}).value();
  if (auto model = model_of_run(folder, options.threads)) return std::move(*model);
  throw UsageError(
      fmt::format("[predict] expected the folder of a saved model or of a run, got {}, which {} (`starling "
                  "train` makes both, `starling export` a model of a run)",
                  options.model, fs::exists(folder) ? "is neither" : "is not there"));
}

// Writes to standard output, or atomically to the file.
void put_text(const PredictArguments& options, const std::string& text) {
  if (options.out.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_atomically(options.out, text).value();
    fmt::print("{}\n", options.out);
  }
}

std::string extension_of(const PredictArguments& options) { return fs::path(options.out).extension().string(); }

int go_on_with_text(const PredictArguments& options, SavedModel& model) {
  if (model.signature().tokenizer.is_null())
    throw UsageError(
        "[predict] expected a model of text, which has a tokenizer, with --prompt, got another (give it "
        "files instead)");
  const auto tokenizer = data::parse_tokenizer(model.signature().tokenizer.dump(), "model.json");
  const auto begin = as_usage([&] { return tokenizer->encode(options.prompt); });
  if (begin.empty()) throw UsageError("[predict] expected a prompt of at least one token, got none");
  const bool json = options.json || extension_of(options) == ".json";
  const bool live = !json && options.out.empty();  // printed token by token
  if (live) fmt::print("{}", options.prompt);
  const auto all = generate(model, begin, options.generate, [&](std::int64_t token) {
    if (!live) return;
    fmt::print("{}", tokenizer->decode({&token, 1}));
    std::fflush(stdout);
  });
  const auto told = [&] { return nlohmann::json{{"text", tokenizer->decode(all)}, {"tokens", all}}.dump(); };
  put_text(options, live ? "\n" : (json ? told() : tokenizer->decode(all)) + "\n");
  return kOk;
}

int translate(const PredictArguments& options, SavedModel& model) {
  if (options.inputs.empty()) throw UsageError("[predict] expected at least one text for a model of texts, got none");
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string lines;
  for (const auto& [source, target] : train::translate_texts(model, options.inputs)) {
    list.push_back({{"input", source}, {"output", target}});
    lines += fmt::format("{}: {}\n", source, target);
  }
  put_text(options, options.json || extension_of(options) == ".json" ? list.dump() + "\n" : lines);
  return kOk;
}

Tensor run_in_batches(SavedModel& model, const Tensor& all, std::int64_t batch) {
  const ModelField& field = model.signature().outputs.at(0);
  Shape shape = field.sample;
  shape.insert(0, all.size(0));
  Tensor out = empty(shape, field.dtype);
  for (std::int64_t begin = 0; begin < all.size(0); begin += batch) {
    const std::int64_t count = std::min(batch, all.size(0) - begin);
    const auto part = [&](const Tensor& tensor) {
      Shape some = tensor.shape();
      some[0] = count;
      return view_of(tensor, some, tensor.strides(), begin * tensor.strides()[0]);
    };
    copy_into(part(out), model.run(part(all)));
  }
  return out;
}

int predict_files(const PredictArguments& options, SavedModel& model) {
  if (options.inputs.empty()) throw UsageError("[predict] expected at least one file or text, or --prompt, got none");
  if (options.inputs.size() > 1 && !options.out.empty())
    throw UsageError(
        "[predict] expected one input (a folder counts as one) with -o, got several (call it once for "
        "each)");
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& path : options.inputs) {
    PredictInput input = read_predict_input(path, model.signature(), options.csv_header);
    const Tensor output = run_in_batches(model, input.batch, options.batch);
    const Predictions made = make_predictions(model.signature(), std::move(input.names), output);
    if (!options.out.empty()) {
      write_predictions(options.out, made, model.signature(), options.top);
      fmt::print("{}\n", options.out);
    } else if (options.json) {
      for (auto& one : to_json(made, model.signature(), options.top)) all.push_back(std::move(one));
    } else {
      fmt::print("{}", to_text(made, model.signature(), options.top));
    }
  }
  if (options.json && options.out.empty()) fmt::print("{}\n", all.dump());
  return kOk;
}

int run_predict(const PredictArguments& options) {
  SavedModel model = load_model(options);
  const bool writes_text = !options.prompt.empty() || train::reads_and_writes_text(model.signature());
  if (!options.out.empty()) {
    check_output_name(options.out, writes_text ? text_extensions() : array_extensions());
    if (options.json && writes_text && extension_of(options) != ".json")
      throw UsageError(
          fmt::format("[predict] expected -o with a name that ends with .json beside --json, got {}", options.out));
  }
  if (!options.prompt.empty()) return go_on_with_text(options, model);
  if (writes_text) return translate(options, model);
  return predict_files(options, model);
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_predict(cli::Commands& into) {
  auto [app, o] = into.add<cli::PredictArguments>(
      "predict", "Runs a saved model on pictures, arrays, tables or text",
      {{"predict runs/fashion_lenet/model shoe.png shirt.jpg --top 3", "the likeliest classes of two pictures"},
       {"predict runs/fashion_lenet pictures/ -o classes.csv", "a folder of pictures into a table of probabilities"},
       {"predict model data.npy -o out.npy", "samples of an array, outputs as an array"},
       {"predict runs/houses new.csv", "rows of a table: columns by name, as the model was trained"},
       {"predict runs/reviews \"well made and fast\" more.csv", "a text, and the texts of a file"},
       {"predict runs/char_gpt --prompt \"The meaning of\" --tokens 200 --temperature 0.8", "continues a text"},
       {"predict runs/g2p starling murmuration", "spellings into phonemes"}},
      cli::run_predict);
  app.add_option("model", o.model, "Folder of a saved model, or of a run with one")->required();
  app.add_option(
      "input", o.inputs,
      "Pictures (.jpg, .png), folders of them, .npy, .npz:array, .h5 (or .h5:array) or .csv files; texts or files of "
      "them for models of texts");
  app.add_option("-o,--out", o.out,
                 "File to write: .npy, .csv or .json, of texts .txt or .json; nothing: standard output");
  app.add_option("--top", o.top, "How many classes to tell")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  app.add_option("--batch", o.batch, "Samples run at once")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_flag(
      "--csv-header", o.csv_header,
      "The first row of a CSV file names its columns; not needed for models of tables, which know their columns");
  auto* prompt = app.add_option("--prompt", o.prompt, "Text that a language model continues");
  app.add_option("--tokens", o.generate.tokens, "How many tokens to add to the prompt")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(prompt)
      ->capture_default_str();
  app.add_option("--temperature", o.generate.temperature, "0: always the likeliest; 1: as the model says")
      ->check(CLI::Range(0.0, 100.0))
      ->needs(prompt)
      ->capture_default_str();
  app.add_option("--top-k", o.generate.top_k, "Draws among the k likeliest tokens only; 0: among all")
      ->check(CLI::Range(0, 1'000'000))
      ->needs(prompt);
  app.add_option("--seed", o.generate.seed, "Of the draws")->needs(prompt)->capture_default_str();
  app.add_option("--threads", o.threads, "0: all")->check(CLI::Range(0, 1024));
  app.add_flag("--json", o.json, "One JSON line for programs");
}

}  // namespace starling
