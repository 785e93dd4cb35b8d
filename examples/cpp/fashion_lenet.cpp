// LeNet on Fashion-MNIST: progress on the terminal; checkpoints, TensorBoard events, a log and a summary in
// runs/lenet_cpp. Ctrl-C saves and leaves; started again, it resumes.
#include <starling/training.h>

#include <iostream>

namespace sl = starling;

std::shared_ptr<const sl::Dataset> images(sl::Split split) {
  const auto set = sl::load_fashion_mnist(split);
  return std::make_shared<sl::TensorDataset>(std::vector<sl::Tensor>{set.images, set.labels});
}

int main() {
  sl::manual_seed(1);
  auto net = sl::zoo::lenet();
  sl::optim::Sgd optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-4});
  sl::Trainer trainer(net, optimizer, sl::classify(),
                      {.epochs = 10,
                       .folder = "runs/lenet_cpp",
                       .schedule = sl::optim::make_schedule(sl::optim::CosineOptions{}),
                       .stop = sl::stop_on_signals()});
  trainer.add(sl::monitor()).add(sl::checkpoints({.best = "accuracy"}));
  const auto result = trainer.fit(images(sl::Split::train), images(sl::Split::test));
  if (result.interrupted) return 130;
  std::cout << "accuracy " << result.summary.metrics.at("accuracy") << " after " << result.summary.steps << " steps\n";
}
