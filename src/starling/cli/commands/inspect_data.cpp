#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "starling/cli/commands.h"
#include "starling/cli/inspect/inspect_files.h"
#include "starling/data/datasets/hdf5_dataset.h"
#include "starling/data/formats/hdf5.h"
#include "starling/data/formats/hdf5_path.h"
#include "starling/data/formats/idx.h"
#include "starling/data/formats/npy.h"
#include "starling/data/formats/safetensors.h"
#include "starling/data/loading/loader.h"
#include "starling/data/records/field_summary.h"
#include "starling/data/source.h"
#include "starling/train/job/job_data.h"

namespace starling {
namespace {

using cli::as_usage;
using cli::kOk;
using cli::UsageError;
namespace fs = std::filesystem;

constexpr std::int64_t kStreamBatch = 64;

struct InspectDataArguments {
  std::string what;
  std::vector<std::string> set;
  bool stats = false;
  std::int64_t limit = 0;
};

bool ends_with(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view end) { return name.ends_with(end); });
}

std::string shown(const std::vector<data::NamedSummary>& fields, const InspectDataArguments& options) {
  if (options.stats) return to_text(fields);
  std::string text;
  for (const auto& [name, field, value_names] : fields)
    text += fmt::format("{}: {}{}\n", name, field.samples >= 0 ? fmt::format("{} of ", field.samples) : "",
                        to_string(field.type));
  return text;
}

// Summary of a file.

std::vector<NamedTensor> arrays_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.ends_with(".safetensors")) return data::SafetensorsFile::open(file).value().tensors();
  if (ends_with(name, {"-ubyte", "-ubyte.gz", ".idx", ".idx.gz"})) return {{name, data::read_idx(file)}};
  if (name.ends_with(".npy")) return {{name, data::read_npy(file)}};
  if (name.ends_with(".npz")) return data::read_npz(file);
  throw UsageError(fmt::format(
      "[inspect] expected a job (.yaml), a folder, a table (.csv, .tsv), a picture (.jpg, .png) or a file of "
      "arrays (.npy, .npz, .h5, .safetensors, .idx, -ubyte), got {}",
      file.string()));
}

data::FieldSummary look_at(const Tensor& array, const InspectDataArguments& options) {
  if (options.stats) return data::summarise(array, {.limit = options.limit});
  Shape shape = array.shape();
  if (shape.rank() > 0) shape.erase(0);
  return {.type = {array.dtype(), shape}, .samples = array.rank() > 0 ? array.size(0) : 1};
}

// Summary of the arrays of an HDF5 file; single numbers and what is not numbers are only named.
int run_hdf5(const InspectDataArguments& options) {
  std::vector<data::NamedSummary> fields;
  for (const auto& entry : data::list_hdf5(options.what)) {
    if (!entry.type || entry.type->shape.rank() == 0) {
      fmt::print("{}: {}\n", entry.name, entry.type ? to_string(*entry.type) : entry.what);
    } else if (options.stats) {
      const data::Hdf5Dataset array({data::open_hdf5(options.what, entry.name)}, 0);
      fields.push_back({entry.name, data::summarise(array, {.limit = options.limit}).front()});
    } else {
      data::FieldSummary field{.type = *entry.type, .samples = entry.type->shape[0]};
      field.type.shape.erase(0);
      fields.push_back({entry.name, std::move(field)});
    }
  }
  std::cout << shown(fields, options);
  return kOk;
}

int run_file(const InspectDataArguments& options) {
  if (!fs::exists(options.what))
    throw UsageError(
        fmt::format("[inspect] expected a job or a file of data, got {}, which is not there", options.what));
  if (fs::is_directory(options.what)) {
    std::cout << cli::describe_folder(options.what);
    return kOk;
  }
  if (ends_with(options.what, {".csv", ".csv.gz", ".tsv"})) {
    std::cout << cli::describe_csv(options.what, options.limit);
    return kOk;
  }
  if (cli::is_picture_file(options.what)) {
    std::cout << cli::describe_picture(options.what);
    return kOk;
  }
  if (data::parse_hdf5_path(options.what)) return run_hdf5(options);
  std::vector<data::NamedSummary> fields;
  for (const auto& [name, tensor] : arrays_of(options.what)) fields.push_back({name, look_at(tensor, options)});
  std::cout << shown(fields, options);
  return kOk;
}

// Summary of a job's data as read by its source, before the transforms, whose options are chosen by it.

data::DataSplits read_source(const InspectDataArguments& options) {
  const auto top = as_usage([&] { return ConfigNode::load(options.what, options.set); });
  return train::read_splits(as_usage([&] { return train::read_job(top); }).data);
}

std::vector<data::FieldSummary> look_at(const Dataset& data, const InspectDataArguments& options) {
  if (options.stats) return data::summarise(data, {.limit = options.limit});
  std::vector<data::FieldSummary> fields;
  for (const auto& type : data.fields()) fields.push_back({.type = type, .samples = data.size()});
  return fields;
}

std::vector<data::FieldSummary> look_at(const data::RecordShards& shards, const InspectDataArguments& options) {
  Loader loader(shards, {}, {.batch = kStreamBatch, .shuffle = false});
  std::optional<data::FieldSummaries> made;
  std::int64_t seen = 0;
  const std::int64_t most = options.stats ? options.limit : 1;
  while (const Batch* batch = loader.next()) {
    if (!made) {
      std::vector<TensorType> types;
      for (const auto& field : batch->fields) {
        types.push_back(field.type());
        types.back().shape.erase(0);
      }
      made.emplace(types);
    }
    made->add({batch->fields.data(), batch->fields.size()});
    seen += batch->size;
    if (most > 0 && seen >= most) break;
  }
  auto fields = made ? made->take() : std::vector<data::FieldSummary>{};
  for (auto& field : fields) field.samples = options.stats ? field.samples : -1;  // unknown
  return fields;
}

// Name of a field by what it holds: sources hand out samples without names.
std::string field_name(const data::DataSplits& splits, const TensorType& type, std::size_t number) {
  const bool numbers = is_float(type.dtype) || type.dtype == DType::u8;
  if (number == 0) {
    if (!numbers && splits.vocabulary > 0) return "tokens";
    return type.shape.rank() == 3 ? "image" : type.shape.rank() == 1 && numbers ? "features" : "sample";
  }
  if (number > 1) return fmt::format("field {}", number);
  if (splits.target_vocabulary > 0 || (!numbers && splits.vocabulary > 0)) return "target tokens";
  if (splits.classes == 0) return "target";
  return type.shape.rank() == 0 ? "label" : "labels";
}

template <class Data>
void show_part(const char* name, const Data& data, const data::DataSplits& splits,
               const InspectDataArguments& options) {
  std::vector<data::NamedSummary> fields;
  for (auto& field : look_at(*data, options)) {
    const std::string held = field_name(splits, field.type, fields.size());
    fields.push_back({fmt::format("{} {}", name, held), std::move(field)});
    if (!fields.back().field.values.empty()) fields.back().value_names = splits.class_names;
  }
  std::cout << shown(fields, options) << (options.stats ? "\n" : "");
}

int run_job(const InspectDataArguments& options) {
  const data::DataSplits splits = read_source(options);
  if (splits.train) show_part("train", splits.train, splits, options);
  if (splits.train_shards) show_part("train", splits.train_shards, splits, options);
  if (splits.valid) show_part("valid", splits.valid, splits, options);
  if (splits.valid_shards) show_part("valid", splits.valid_shards, splits, options);
  if (splits.test) show_part("test", splits.test, splits, options);
  if (splits.test_shards) show_part("test", splits.test_shards, splits, options);
  if (splits.classes > 0) fmt::print("{} classes\n", splits.classes);
  if (splits.vocabulary > 0) fmt::print("{} tokens\n", splits.vocabulary);
  return kOk;
}

int run_inspect_data(const InspectDataArguments& options) {
  return ends_with(options.what, {".yaml", ".yml"}) ? run_job(options) : run_file(options);
}

}  // namespace

void register_command_inspect_data(cli::Commands& into) {
  auto [app, o] = into.add<InspectDataArguments>(
      "inspect data", "Shows what data a job trains with, or what a file or folder holds",
      {{"inspect data job.yaml --stats", "ranges, means, spreads and classes of everything the job reads"},
       {"inspect data houses.csv", "columns of a table: kinds, ranges, most frequent words, empty cells"},
       {"inspect data pictures", "pictures by subfolder, and their sizes"},
       {"inspect data weights.safetensors", "names and types of arrays"}},
      run_inspect_data);
  app.add_option("what", o.what, "Job file (YAML), a folder, or a file: CSV, picture, arrays")->required();
  app.add_option("--set", o.set, "Replaces a value of the job: data.batch=32")->allow_extra_args(false);
  app.add_flag("--stats", o.stats, "Reads the data and shows minimum, maximum, mean, standard deviation and values");
  app.add_option("--limit", o.limit, "Look at so many samples, spread over the data; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
}

}  // namespace starling
