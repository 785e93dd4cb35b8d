#include "starling/capi/guard.h"
#include "starling/data/source.h"

using namespace starling::capi;  // NOLINT(google-build-using-namespace): C functions stand outside

namespace {

std::shared_ptr<const starling::Dataset> split_named(const starling::data::DataSplits& splits,
                                                     const std::string& name) {
  const auto& found = name == "train" ? splits.train : name == "test" ? splits.test : splits.valid;
  starling::check(name == "train" || name == "test" || name == "valid",
                  "[data] expected train, test or valid, got '{}'", name);
  starling::check(found != nullptr, "[data] expected a source with the split '{}', got one without", name);
  return found;
}

}  // namespace

extern "C" {

starling_status starling_loader_new(const char* source, const char* split, int64_t batch, uint64_t seed, int shuffle,
                                    starling_loader** made) {
  return guarded([&] {
    given(source, "data", "a source");
    given(split, "data", "the name of a split");
    given(made, "data", "a place for the loader");
    const auto splits = starling::data::source_kinds().choose(options_of(source, "data")).make()();
    const starling::LoaderOptions options{.batch = batch, .seed = seed, .shuffle = shuffle != 0};
    *made = new starling_loader{std::make_unique<starling::Loader>(split_named(splits, split), options)};
  });
}

starling_status starling_loader_next(starling_loader* loader, starling_tensor** fields, int capacity, int* made) {
  return guarded([&] {
    auto& own = given(loader, "data", "a loader");
    if (!own.waiting) own.batch = own.value->next();
    own.waiting = true;  // until it is handed out: a call that fails loses no batch
    // The loader fills its buffers again: what the caller keeps is its own.
    starling::TensorList copies;
    if (own.batch) {
      for (const auto& field : own.batch->fields) copies.push_back(starling::copied(field));
    }
    give(copies, fields, capacity, made, "data");
    own.waiting = false;
  });
}

void starling_loader_free(starling_loader* loader) { delete loader; }

starling_status starling_model_load(const char* folder, starling_model** made) {
  return guarded([&] {
    given(folder, "model", "a folder");
    given(made, "model", "a place for the model");
    *made = new starling_model{starling::SavedModel::load(folder).value()};
  });
}

starling_status starling_model_run(starling_model* model, starling_tensor* const* inputs, int count,
                                   starling_tensor** results, int capacity, int* made) {
  return guarded([&] {
    auto& own = given(model, "model", "a model").value;
    give(own.run(inputs_of(inputs, count, "model")), results, capacity, made, "model");
  });
}

void starling_model_free(starling_model* model) { delete model; }

}  // extern "C"
