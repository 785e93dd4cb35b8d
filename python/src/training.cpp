#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <thread>

#include "bind.h"
#include "convert.h"
#include "dense.h"
#include "held.h"
#include "interruptible.h"
#include "loader.h"
#include "python_batches.h"
#include "python_stream.h"
#include "ranks.h"
#include "signals.h"
#include "starling/base/error.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/optim/schedule_kinds.h"
#include "starling/train/callback.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/job/job.h"
#include "starling/train/job/job_run.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/objective.h"

namespace starling::python {
namespace {

// A run as callbacks see it, for as long as a call of theirs lasts.
struct PyRun {
  Run* run;

  Run& get() const {
    check(run != nullptr, "[run] expected the run to be used inside a callback only");
    return *run;
  }
};

// A callback that is any Python object with some of the methods begin, step, evaluated, epoch, end.
class PyCallback final : public Callback {
 public:
  PyCallback(nb::object object, std::shared_ptr<SignalWatch> signals)
      : object_(held(std::move(object))), signals_(std::move(signals)) {}
  std::string name() const override { return "python"; }
  PyObject* object() const { return object_->ptr(); }
  void begin(Run& run) override { tell("begin", run); }
  void step(Run& run) override { tell("step", run); }
  void evaluated(Run& run) override { tell("evaluated", run); }
  void epoch(Run& run) override { tell("epoch", run); }
  void end(Run& run) override { tell("end", run); }

 private:
  void tell(const char* method, Run& run) {
    const nb::gil_scoped_acquire gil;
    if (!nb::hasattr(*object_, method)) return;
    const nb::object handle = nb::cast(PyRun{&run});
    struct Over {
      PyRun& used;
      ~Over() { used.run = nullptr; }
    } const over{nb::cast<PyRun&>(handle)};
    try {
      object_->attr(method)(handle);
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      signals_->keep(error);  // the run saves its state before it ends
    }
  }

  Held object_;
  std::shared_ptr<SignalWatch> signals_;
};

void bind_run(nb::module_& m) {
  nb::class_<PyRun>(m, "Run", "A training run, as callbacks see it; valid during the call.")
      .def_prop_ro(
          "step", [](const PyRun& self) { return self.get().state().step; }, "Steps made so far.")
      .def_prop_ro(
          "epoch", [](const PyRun& self) { return self.get().state().position.epoch; },
          "Number of the epoch that the next batch belongs to, from 0.")
      .def_prop_ro(
          "samples", [](const PyRun& self) { return self.get().state().samples; },
          "Samples trained on so far, over all ranks.")
      .def_prop_ro(
          "loss", [](const PyRun& self) { return self.get().last().loss; }, "The last step's loss.")
      .def_prop_ro(
          "lr", [](const PyRun& self) { return self.get().last().lr; }, "The last step's learning rate.")
      .def_prop_ro(
          "metrics", [](const PyRun& self) { return self.get().evaluation().metrics; },
          "The last evaluation's metrics by name; empty before the first.")
      .def(
          "report", [](PyRun& self, const std::string& name, double value) { self.get().report(name, value); },
          nb::arg("name"), nb::arg("value"), "Adds a metric to the last evaluation.")
      .def(
          "note", [](PyRun& self, const std::string& text) { self.get().note(text); }, nb::arg("text"),
          "Tells a line beside the progress, kept in the run's log.")
      .def(
          "stop", [](PyRun& self, const std::string& reason) { self.get().stop(reason); },
          nb::arg("reason") = "a callback asked for it", "Ends the run after this step, as if it were done.");
}

nb::object summary_of(const Summary& summary) { return from_json_text(to_json(summary)); }

// Where a run shows its progress, as starling/_progress.py says: (mode, columns, write), write None for standard error.
struct ProgressPlace {
  ProgressOptions options;
  std::shared_ptr<PythonStream> stream;
};

ProgressPlace progress_from(nb::handle given) {
  ProgressPlace place;
  place.options.mode = parse_progress_mode(nb::cast<std::string>(given[0]));
  place.options.columns = nb::cast<int>(given[1]);
  if (nb::object(given[2]).is_none()) return place;
  place.stream = std::make_shared<PythonStream>(given[2]);
  place.options.out = place.stream.get();
  return place;
}

train::Job read_given(const std::string& job, bool is_text, const std::vector<std::string>& overrides) {
  return train::read_job(is_text ? ConfigNode::parse(job, "job", overrides) : ConfigNode::load(job, overrides));
}

// A function of Python that makes a network, called by ranks on their threads. `here`: what it made on this one.
std::function<std::shared_ptr<nn::Module>()> maker_of(nb::object make, std::shared_ptr<nb::object> here) {
  return [make = held(std::move(make)), here = std::move(here), caller = std::this_thread::get_id()] {
    const nb::gil_scoped_acquire gil;
    nb::object net = (*make)();
    if (!nb::isinstance<nn::Module>(net))
      refuse_type("[trainer] expected a network, or a function that makes one", net);
    auto made = nb::cast<std::shared_ptr<nn::Module>>(net);
    if (std::this_thread::get_id() == caller) *here = std::move(net);
    return made;
  };
}

// given: a network, a function that makes one, or None.
nb::object run_a_job(const train::Job& read, nb::handle progress, nb::object given, nb::handle callbacks) {
  std::shared_ptr<nn::Module> net;
  if (nb::isinstance<nn::Module>(given)) net = nb::cast<std::shared_ptr<nn::Module>>(given);
  const auto here = std::make_shared<nb::object>(given);
  check(
      net == nullptr || read.distribute.server_count() == 0,
      "[train] expected a job without parameter servers for a network of the program's own, since leader, workers and "
      "servers each make theirs, got strategy {}: give a function that makes it, Trainer(make_net, job), or name it in "
      "the job as a list of layers, model: {{layers: [...]}}",
      read.distribute.strategy.name);
  train::TrainOptions options;
  const auto signals = std::make_shared<SignalWatch>();
  options.stop = [signals] { return signals->arrived(); };
  const ProgressPlace place = progress_from(progress);
  options.progress = place.options;
  options.net = std::move(net);
  if (!given.is_none() && !options.net) options.make_net = maker_of(given, here);
  for (nb::handle callback : callbacks)
    options.callbacks.push_back(std::make_shared<PyCallback>(nb::borrow(callback), signals));
  train::TrainResult result;
  {
    const nb::gil_scoped_release release;
    result = train::run_job(read, options);
  }
  signals->raise();
  check(!result.beyond,
        "[train] expected a run of no more epochs and steps than the job asks for, got one that went further in {}",
        read.train.folder.string());
  nb::object summary = summary_of(result.summary);
  summary["was_finished"] = result.was_finished;
  return nb::make_tuple(summary, *here);
}

struct PyTrainer {
  std::shared_ptr<nn::Module> net;
  nb::object optimizer;
  std::shared_ptr<SignalWatch> signals;
  std::shared_ptr<PythonStream> progress;  // null: standard error
  std::unique_ptr<Trainer> trainer;
  std::vector<std::shared_ptr<PyCallback>> callbacks;  // the trainer's own
  std::shared_ptr<runtime::Strategy> strategy;

  void add(std::shared_ptr<PyCallback> callback) {
    trainer->add(callback);
    callbacks.push_back(std::move(callback));
  }
  void drop() {
    trainer.reset();
    callbacks.clear();
    optimizer.reset();
  }
};

// For the collector of cycles: callbacks often hold their trainer.
int traverse_trainer(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto& trainer = *nb::inst_ptr<PyTrainer>(self);
  for (const auto& callback : trainer.callbacks) Py_VISIT(callback->object());
  Py_VISIT(trainer.optimizer.ptr());
  const auto* held = std::get_deleter<nb::detail::py_deleter>(trainer.net);
  if (held && trainer.net.use_count() == 1) Py_VISIT(held->o);
  return 0;
}

int clear_trainer(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PyTrainer>(self)->drop();
  return 0;
}

PyType_Slot trainer_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_trainer)},
                               {Py_tp_clear, reinterpret_cast<void*>(&clear_trainer)},
                               {0, nullptr}};

NonFinite non_finite_named(const std::string& name) {
  constexpr std::pair<const char*, NonFinite> kNames[] = {{"auto", NonFinite::automatic},
                                                          {"stop", NonFinite::stop},
                                                          {"skip", NonFinite::skip},
                                                          {"rollback", NonFinite::rollback},
                                                          {"ignore", NonFinite::ignore}};
  for (const auto& [text, value] : kNames) {
    if (name == text) return value;
  }
  fail("[trainer] expected non_finite to be auto, stop, skip, rollback or ignore, got '{}'", name);
}

// Options of a trainer beside its steps, as the Python class names them.
TrainerOptions trainer_options(nb::dict given) {
  TrainerOptions options;
  options.epochs = nb::cast<std::int64_t>(given["epochs"]);
  options.steps = nb::cast<std::int64_t>(given["steps"]);
  options.batch = nb::cast<std::int64_t>(given["batch"]);
  options.seed = nb::cast<std::int64_t>(given["seed"]);
  options.clip_norm = nb::cast<double>(given["clip_norm"]);
  options.clip_value = nb::cast<double>(given["clip_value"]);
  options.precision = parse_precision(nb::cast<std::string>(given["precision"]));
  options.non_finite = non_finite_named(nb::cast<std::string>(given["non_finite"]));
  options.evaluate_every = nb::cast<std::int64_t>(given["evaluate_every"]);
  options.threads = nb::cast<int>(given["threads"]);
  options.folder = nb::cast<std::string>(given["folder"]);
  options.strategy = strategy_from(given["strategy"]).strategy;
  options.accumulate = nb::cast<std::int64_t>(given["accumulate"]);
  options.metrics = metrics_by_name(nb::cast<std::vector<std::string>>(given["metrics"]));
  const auto schedule = nb::cast<std::string>(given["schedule"]);
  if (!schedule.empty())
    options.schedule = optim::schedule_kinds().choose(ConfigNode::parse(schedule, "schedule")).make();
  return options;
}

// Outputs of an objective written in Python: the loss alone, or with predictions and targets for metrics.
Objective::Outputs outputs_of(nb::handle returned) {
  if (nb::isinstance<Tensor>(returned)) return {.loss = nb::cast<Tensor>(returned)};
  if (!nb::isinstance<nb::tuple>(returned) || nb::len(returned) < 1 || nb::len(returned) > 3)
    refuse_type("[trainer] expected an objective that returns loss, (loss, prediction) or (loss, prediction, target)",
                returned);
  const std::vector<Tensor> parts = to_tensors(returned);
  Objective::Outputs out{.loss = parts[0]};
  if (parts.size() > 1) out.prediction = parts[1];
  if (parts.size() > 2) out.target = parts[2];
  return out;
}

// An objective by its name in job files, or a function (net, *fields) of Python.
ObjectivePtr objective_from(nb::handle given) {
  if (nb::isinstance<nb::str>(given)) return objective_kinds().by_name(nb::cast<std::string>(given)).make();
  if (!nb::isinstance<nb::callable>(given))
    refuse_type("[trainer] expected the name of an objective or a function", given);
  return own_objective([f = held(nb::borrow(given))](nn::Module& net, std::span<const Tensor> fields) {
    const nb::gil_scoped_acquire gil;
    nb::list arguments;
    arguments.append(nb::cast(&net, nb::rv_policy::reference));
    for (const auto& field : fields) arguments.append(field);
    return outputs_of((*f)(*nb::tuple(arguments)));
  });
}

// A trainer with a folder keeps its state there: each epoch, and when it ends, also by Ctrl-C.
void add_checkpoints(Trainer& trainer, nb::dict given) {
  if (nb::cast<std::string>(given["folder"]).empty()) return;
  trainer.add(checkpoints({.every_steps = nb::cast<std::int64_t>(given["save_every"]),
                           .resume = nb::cast<bool>(given["resume"]) ? Resume::automatic : Resume::none}));
}

nb::object fit(PyTrainer& self, std::shared_ptr<Dataset> data, std::shared_ptr<Dataset> test) {
  check(self.trainer != nullptr, "[trainer] expected a trainer that is in use");
  *self.signals = {};
  FitResult result;
  {
    const nb::gil_scoped_release release;
    result = self.trainer->fit(std::shared_ptr<const Dataset>(std::move(data)),
                               std::shared_ptr<const Dataset>(std::move(test)));
  }
  self.signals->raise();
  return summary_of(result.summary);
}

// Batches in the order of a loader of the program's, which keeps its batch size.
nb::object fit_loader(PyTrainer& self, PyLoader& given, std::shared_ptr<Dataset> test) {
  check(self.trainer != nullptr, "[trainer] expected a trainer that is in use");
  *self.signals = {};
  Loader& loader = given.get();
  FitResult result;
  {
    const nb::gil_scoped_release release;
    result = self.trainer->fit(loader, std::shared_ptr<const Dataset>(std::move(test)));
  }
  self.signals->raise();
  return summary_of(result.summary);
}

// Batches that Python makes while the steps run; with `share` every rank makes them all and keeps its rows.
nb::object fit_batches(PyTrainer& self, nb::object from, std::int64_t batch, std::int64_t samples, bool share,
                       std::shared_ptr<Dataset> test) {
  check(self.trainer != nullptr, "[trainer] expected a trainer that is in use");
  *self.signals = {};
  PythonBatchesOptions options{.from = held(std::move(from)), .batch = batch, .samples = samples};
  const auto ranks = std::dynamic_pointer_cast<dist::RankStrategy>(self.strategy);
  if (share && ranks) options.mine = [ranks](std::int64_t rows) { return ranks->rows(rows); };
  auto batches = python_batches(std::move(options));
  FitResult result;
  {
    const nb::gil_scoped_release release;
    Loader loader(std::move(batches), {.batch = batch});
    result = self.trainer->fit(loader, std::shared_ptr<const Dataset>(std::move(test)));
  }
  self.signals->raise();
  return summary_of(result.summary);
}

void bind_trainer(nb::module_& m) {
  nb::class_<PyTrainer>(m, "TrainerBase", nb::type_slots(trainer_slots), "A trainer of the library.")
      .def(
          "__init__",
          [](PyTrainer* self, std::shared_ptr<nn::Module> net, nb::object optimizer, nb::handle objective,
             nb::handle callbacks, nb::dict given) {
            TrainerOptions options = trainer_options(given);
            ProgressPlace place = progress_from(given["progress"]);
            options.progress = place.options;
            auto signals = std::make_shared<SignalWatch>();
            options.stop = [signals] { return signals->arrived(); };
            auto& rule =
                expect_instance<optim::Optimizer>(optimizer, "[trainer] expected an optimizer of starling.optim");
            const auto strategy = options.strategy;
            ObjectivePtr chosen = objective_from(objective);
            // Ranks may meet here.
            auto trainer =
                without_gil([&] { return std::make_unique<Trainer>(*net, rule, std::move(chosen), options); });
            new (self) PyTrainer{std::move(net),
                                 std::move(optimizer),
                                 std::move(signals),
                                 std::move(place.stream),
                                 std::move(trainer),
                                 {},
                                 strategy};
            for (nb::handle callback : callbacks)
              self->add(std::make_shared<PyCallback>(nb::borrow(callback), self->signals));
            add_checkpoints(*self->trainer, given);
          },
          nb::arg("net"), nb::arg("optimizer"), nb::arg("objective"), nb::arg("callbacks"), nb::arg("options"))
      .def("fit", &fit, nb::arg("train"), nb::arg("test").none(), "Trains on a data set.")
      .def("fit_loader", &fit_loader, nb::arg("loader"), nb::arg("test").none(), "Trains on a loader's batches.")
      .def("fit_batches", &fit_batches, nb::arg("make"), nb::arg("batch"), nb::arg("samples"), nb::arg("share"),
           nb::arg("test").none(), "Trains on batches that Python makes.")
      .def(
          "evaluate",
          [](PyTrainer& self, std::shared_ptr<Dataset> data) {
            return without_gil([&] { return self.trainer->evaluate(data); }).metrics;
          },
          nb::arg("data"), "Metrics on a data set.")
      .def(
          "predict",
          [](PyTrainer& self, nb::handle fields) {
            const std::vector<Tensor> given = to_tensors(fields);
            return without_gil([&] { return self.trainer->predict(given); });
          },
          nb::arg("fields"), "The prediction for one batch.");
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_run(m);
  bind_trainer(m);
  nb::class_<train::Job>(m, "Job", "A job that was read.");
  m.def("_read_job", &read_given, nb::arg("job"), nb::arg("is_text"), nb::arg("overrides"));
  m.def("_run_job", &run_a_job, nb::arg("job"), nb::arg("progress"), nb::arg("net").none(), nb::arg("callbacks"));
  m.def("_objectives", [] { return objective_kinds().names(); });
}

}  // namespace starling::python
