#include "starling/train/job/job.h"

namespace starling::train {
namespace {

constexpr double kMany = 1e12;

}  // namespace

Settings LoadJob::settings() {
  using J = LoadJob;
  return {setting("batch", &J::batch, "samples in a step, over all workers together", {.min = 1, .max = 1 << 20}),
          setting("eval_batch", &J::eval_batch, "samples in a batch of an evaluation", {.min = 1, .max = 1 << 20}),
          setting("shuffle", &J::shuffle, "a new order of the samples in every epoch"),
          setting("drop_last", &J::drop_last, "leave out the last batch of an epoch when it is smaller"),
          setting("workers", &J::workers, "threads that make batches; what comes out does not depend on it",
                  {.min = 1, .max = 256}),
          setting("prefetch", &J::prefetch, "batches made ahead", {.min = 1, .max = 64}),
          setting("stream", &J::stream, "how shards without an index are shuffled"),
          setting("split", &J::split, "cut the training samples of the source into parts, by a seed"),
          setting("labels", &J::labels, "train on the first so many samples only; pre-training sees all. 0: all",
                  {.min = 0, .max = 1e12}),
          choice("evaluate", &J::evaluate, {"auto", "valid", "test", "none"},
                 "which part metrics are taken on; auto: valid where the source keeps some apart, else test")};
}

Settings EarlyStopJob::settings() {
  using J = EarlyStopJob;
  return {setting("metric", &J::metric, "which metric to watch; empty: the first"),
          setting("patience", &J::patience, "evaluations without a better value before the run ends",
                  {.min = 1, .max = 1e6}),
          setting("min_delta", &J::min_delta, "what counts as better", {.min = 0})};
}

Settings AverageJob::settings() {
  using J = AverageJob;
  return {setting("decay", &J::decay, "of the moving average of the weights; 0: the plain mean (SWA)",
                  {.min = 0, .max = 0.9999999}),
          setting("from_step", &J::from_step, "nothing is taken before", {.min = 0, .max = kMany}),
          setting("every", &J::every, "steps between two that are taken", {.min = 1, .max = kMany}),
          setting("keep", &J::keep, "the run ends with the averaged weights")};
}

Settings TrainJob::settings() {
  using J = TrainJob;
  return {
      setting("epochs", &J::epochs, "how often to go through the data", {.min = 1, .max = 1'000'000}),
      setting("steps", &J::steps, "stop after so many steps in all; 0: no cap", {.min = 0, .max = kMany}),
      setting("seed", &J::seed, "of the first weights, the order of samples and all noise", {.min = 0, .max = kMany}),
      setting("folder", &J::folder,
              "of the run: checkpoints, logs, summary.json, job.yaml, model; empty: runs/ and the job file's name"),
      setting("device", &J::device, "where the network trains: cpu, or cuda for a GPU (cuda:1 for the second)"),
      choice("precision", &J::precision, {"f32", "bf16", "f16"}, "what products and convolutions compute in"),
      setting("accumulate", &J::accumulate, "batches that one update is made of", {.min = 1, .max = 1 << 20}),
      setting("clip_norm", &J::clip_norm, "largest norm of all gradients together; 0: any", {.min = 0}),
      setting("clip_value", &J::clip_value, "largest size of an element of a gradient; 0: any", {.min = 0}),
      choice(
          "non_finite", &J::non_finite, {"auto", "stop", "skip", "rollback", "ignore"},
          "what becomes of a step whose gradients are not finite, on all workers: end the run, leave the step out, go "
          "back to the newest checkpoint and leave it out then, or do not look; auto: end the run, by the next loss "
          "where all workers share their updates. Weights or optimizer state that are not finite end the run, but for "
          "rollback and ignore"),
      setting(
          "finite_every", &J::finite_every,
          "steps between looks for infinities in weights and optimizer state; 0, and on a GPU: only before checkpoints",
          {.min = 0, .max = kMany}),
      setting("rollbacks", &J::rollbacks, "non_finite: rollback: most to one checkpoint before the run ends",
              {.min = 1, .max = 1000}),
      setting("evaluate_every", &J::evaluate_every, "steps; every epoch ends with an evaluation anyway",
              {.min = 0, .max = kMany}),
      setting("watch", &J::watch, "the metric that schedules observe; empty: the first"),
      setting("early_stop", &J::early_stop, "end the run when a metric has stopped improving"),
      setting("average", &J::average, "average the weights beside training, and evaluate the average too"),
      setting("checkpoint_every", &J::checkpoint_every, "steps; every epoch and every run end with one anyway",
              {.min = 0, .max = kMany}),
      setting("checkpoint_seconds", &J::checkpoint_seconds, "seconds between checkpoints; 0: no such rhythm",
              {.min = 0}),
      setting("keep", &J::keep, "newest checkpoints that stay", {.min = 2, .max = 1'000'000}),
      setting("best", &J::best, "a metric: the checkpoint with its best value stays too"),
      setting("save_memory", &J::save_memory,
              "megabytes that saving may hold beside the state; what does not fit is written before training goes on",
              {.min = 0, .max = 1'000'000}),
      setting("memory_mb", &J::memory_mb,
              "megabytes of tensors that a process may hold in host memory; a run that needs more ends with what would "
              "fit; 0: no limit",
              {.min = 0, .max = 1'000'000'000}),
      choice("resume", &J::resume, {"auto", "none"}, "from the newest sound checkpoint, or from the beginning"),
      setting("export", &J::export_model, "write the trained network to model/ in the folder")};
}

Settings DistributeJob::settings() {
  using J = DistributeJob;
  return {
      setting("workers", &J::workers,
              "that share every batch: threads of this process, unless it was started as one of several, which "
              "are the workers then",
              {.min = 1, .max = 256}),
      setting(
          "servers", &J::servers,
          "parameter servers of a strategy that has some: threads of this process beside its workers, or the last of "
          "several processes",
          {.min = 0, .max = 256}),
      setting("server_backups", &J::server_backups,
              "each server repeats all that the one before it does, and takes its place when that dies: an update is "
              "acknowledged when both have it"),
      setting(
          "backend", &J::backend,
          "what carries the bytes between processes; auto: memory inside a host, and what there is between them. On "
          "GPUs "
          "auto exchanges in device memory where it can; ipc and nccl insist on it, the others take it through host "
          "memory"),
      choice(
          "all_reduce", &J::all_reduce, {"auto", "ring", "halving_doubling", "recursive_doubling", "direct", "linear"},
          "how all-reduces go, by messages between all workers; linear: Mariana's partitioned linear topology. auto: "
          "in place where memory is shared, else whichever is cheapest"),
      setting("threads", &J::threads, "of all workers of a host together; 0: as many as there are cores",
              {.min = 0, .max = 1024}),
      choice("batch_norm", &J::batch_norm, {"local", "global"},
             "statistics of batch norms: of each worker's rows, or of all rows of the batch; of pictures under layout "
             "spatial always of all"),
      setting("topology", &J::topology,
              "groups of workers, synchronous inside, the strategy between them; not given: one group"),
      setting("check", &J::check, "compare what workers ask of each other: a mismatch is named at once"),
      setting("hash_every", &J::hash_every, "steps between two comparisons of the workers' weights; 0: none",
              {.min = 0, .max = kMany}),
      setting("heartbeat", &J::heartbeat,
              "seconds between two signs of life of a process; one that misses three (stopped, cut off, dead) is named "
              "by all others. 0: nobody watches, whatever deadline says, threads neither: for debuggers",
              {.min = 0, .max = 3600}),
      setting(
          "deadline", &J::deadline,
          "seconds that a worker which others wait for may make no progress (hung files, an endless loop) before it "
          "is named; 0: as long as it takes",
          {.min = 0, .max = 1e6}),
      setting("slow", &J::slow,
              "for studies of unequal workers: how many times as long each one's computing takes, by rank; 1: as it is",
              {.min = 1, .max = 1000})};
}

}  // namespace starling::train
