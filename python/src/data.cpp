#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "held.h"
#include "loader.h"
#include "starling/base/error.h"
#include "starling/data/datasets/dataset.h"
#include "starling/data/formats/safetensors.h"
#include "starling/data/source.h"
#include "starling/tensor/bytes.h"

namespace starling::python {
namespace {

// Samples of a Python object with __len__ and __getitem__, asked for by the loader's threads one at a time.
class PyDataset final : public Dataset {
 public:
  explicit PyDataset(nb::object object)
      : object_(held(std::move(object))), size_(static_cast<std::int64_t>(nb::len(*object_))) {
    check(size_ > 0, "[data] expected a data set with samples, got an empty one");
    for (const Tensor& field : sample(0)) fields_.push_back(field.type());
  }
  std::int64_t size() const override { return size_; }
  std::vector<TensorType> fields() const override { return fields_; }

  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    const nb::gil_scoped_acquire gil;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<Tensor> fields = sample(rows[i]);
      check(fields.size() == out.size(), "[data] expected {} fields in sample {}, got {}", out.size(), rows[i],
            fields.size());
      for (std::size_t f = 0; f < fields.size(); ++f) {
        check(fields[f].type() == fields_[f], "[data] expected {} as field {} of sample {}, got {}",
              to_string(fields_[f]), f, rows[i], to_string(fields[f].type()));
        const std::size_t bytes = bytes_of(fields_[f]);
        std::memcpy(static_cast<std::byte*>(out[f].raw()) + i * bytes, dense(fields[f]).raw(), bytes);
      }
    }
  }

 private:
  std::vector<Tensor> sample(std::int64_t index) const {
    try {
      const nb::object given = (*object_)[nb::cast(index)];
      if (nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given)) return to_tensors(given);
      return {to_tensor(given)};
    } catch (nb::python_error& error) {
      // Threads of the loader hand on errors as text.
      fail("[data] sample {}: {}", index, error.what());
    } catch (const nb::builtin_exception& error) {  // of what is no tensor
      fail("[data] sample {}: {}", index, error.what());
    }
  }

  Held object_;
  std::int64_t size_;
  std::vector<TensorType> fields_;
};

std::shared_ptr<const Dataset> columns(nb::handle arrays) {
  std::vector<Tensor> tensors;
  for (nb::handle array : arrays) tensors.push_back(dense(to_tensor(array, std::nullopt, true)));
  return std::make_shared<TensorDataset>(std::move(tensors));
}

data::DataSplits read_source(const std::string& options) {
  const ConfigNode node = ConfigNode::parse(options, "data");
  const auto chosen = data::source_kinds().choose(node);
  const nb::gil_scoped_release release;
  return chosen.make()();
}

// To a position, if the loader is not there: it begins anew then.
void seek(Loader& loader, std::int64_t epoch, std::int64_t sample) {
  const nb::gil_scoped_release release;
  const data::DataPosition wanted{epoch, sample};
  if (!(loader.position() == wanted)) loader.seek(wanted);
}

std::optional<TensorList> next_batch(Loader& loader) {
  const nb::gil_scoped_release release;
  const Batch* batch = loader.next();
  if (!batch) return std::nullopt;
  // The loader fills its buffers again: what Python keeps is its own.
  TensorList fields;
  for (const auto& field : batch->fields) fields.push_back(copied(field));
  return fields;
}

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<Dataset>(m, "Dataset", "Samples by number.")
      .def("__len__", &Dataset::size)
      .def(
          "__getitem__",
          [](const Dataset& self, std::int64_t index) {
            if (index < 0) index += self.size();
            if (index < 0 || index >= self.size()) throw nb::index_error("[data] expected the number of a sample");
            TensorList out;
            std::vector<Tensor> rows;
            for (TensorType type : self.fields()) {
              type.shape.insert(0, 1);
              rows.push_back(empty(type.shape, type.dtype));
            }
            {
              const nb::gil_scoped_release release;
              self.gather({&index, 1}, rows);
            }
            for (const Tensor& row : rows) out.push_back(row[0]);
            return to_python(out);
          },
          nb::arg("index"));
  const auto split = [](std::shared_ptr<const Dataset> data::DataSplits::*part) {
    return [part](const data::DataSplits& self) { return std::const_pointer_cast<Dataset>(self.*part); };
  };
  nb::class_<data::DataSplits>(m, "DataSplits", "The data sets of a source.")
      .def_prop_ro("train", split(&data::DataSplits::train), "Samples to train on.")
      .def_prop_ro("test", split(&data::DataSplits::test), "Samples to test on, or None.")
      .def_prop_ro("valid", split(&data::DataSplits::valid), "Samples to choose settings by, or None.")
      .def_ro("classes", &data::DataSplits::classes, "Number of classes; 0: it has none.")
      .def_ro("vocabulary", &data::DataSplits::vocabulary, "Number of tokens; 0: it is no text.")
      .def_ro("class_names", &data::DataSplits::class_names, "Names of the classes, if they are known.");
  m.def("_save_tensors", [](const std::string& path, nb::dict tensors) {
    std::vector<NamedTensor> named;
    for (auto [name, value] : tensors) named.push_back({nb::cast<std::string>(name), dense(to_tensor(value).detach())});
    const nb::gil_scoped_release release;
    data::write_safetensors(path, named).value();
  });
  m.def("_load_tensors", [](const std::string& path) {
    std::vector<NamedTensor> read;
    {
      const nb::gil_scoped_release release;
      for (const auto& [name, tensor] : data::SafetensorsFile::open(path).value().tensors())
        read.push_back({name, dense_copy(tensor)});
    }
    nb::dict tensors;
    for (const auto& [name, tensor] : read) tensors[name.c_str()] = tensor;
    return tensors;
  });
  m.def("_read_source", &read_source, nb::arg("options"));
  m.def("_source_kinds", [] { return data::source_kinds().names(); });
  m.def("_columns", [](nb::handle arrays) { return std::const_pointer_cast<Dataset>(columns(arrays)); });
  m.def("_python_dataset",
        [](nb::object object) -> std::shared_ptr<Dataset> { return std::make_shared<PyDataset>(std::move(object)); });
  nb::class_<PyLoader>(m, "LoaderBase", nb::is_weak_referenceable(), "A loader of the library.")
      .def(
          "__init__",
          [](PyLoader* self, std::shared_ptr<Dataset> dataset, std::int64_t batch, bool shuffle, std::uint64_t seed,
             bool drop_last, int workers, int rank, int ranks) {
            const LoaderOptions options{.batch = batch,
                                        .seed = seed,
                                        .shuffle = shuffle,
                                        .drop_last = drop_last,
                                        .workers = workers,
                                        .rank = rank,
                                        .ranks = ranks};
            new (self) PyLoader(std::make_unique<Loader>(std::move(dataset), options));
          },
          nb::arg("dataset"), nb::arg("batch"), nb::arg("shuffle"), nb::arg("seed"), nb::arg("drop_last"),
          nb::arg("workers"), nb::arg("rank"), nb::arg("ranks"))
      .def(
          "next",
          [](PyLoader& self) -> nb::object {
            const auto fields = next_batch(self.get());
            return fields ? nb::object(to_python(*fields)) : nb::none();
          },
          "The next batch, or None at the end of an epoch.")
      .def(
          "seek", [](PyLoader& self, std::int64_t epoch, std::int64_t sample) { seek(self.get(), epoch, sample); },
          nb::arg("epoch"), nb::arg("sample"), "The next batch begins there.")
      .def_prop_ro(
          "position",
          [](PyLoader& self) {
            const data::DataPosition now = self.get().position();
            return nb::make_tuple(now.epoch, now.sample);
          },
          "(epoch, sample) of the next batch.")
      .def("stop", &PyLoader::stop, "Ends its threads.")
      .def_prop_ro(
          "batches", [](PyLoader& self) { return self.get().batches_per_epoch(); }, "Number of batches of an epoch.")
      .def_prop_ro(
          "samples", [](PyLoader& self) { return self.get().samples_per_epoch(); },
          "Number of samples of an epoch, over all ranks.");
}

}  // namespace starling::python
