// Does unsupervised pre-training help when labels are few? Fashion-MNIST with 1000 labels: a deep sigmoid network is
// trained on them from random weights, and after its hidden layers were pre-trained on all 60 000 images without
// labels, as a deep belief network (restricted Boltzmann machines) or as a stack of denoising autoencoders.
//
//   pretraining [--kind dbn|sae] [--seeds 5] [--labels 1000] [--pretrain-epochs 5] [--epochs 100] [--lr 0.05] ...
//
// Both runs of a seed see the same labels, begin with the same last layer, and are fine-tuned alike. Prints the test
// accuracy of each, and mean and standard error of both and of their difference.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>

#include "starling/data/datasets/dataset.h"
#include "starling/data/datasets/fashion_mnist.h"
#include "starling/data/loading/loader.h"
#include "starling/starling.h"

namespace sl = starling;

namespace {

struct Options {
  std::string kind = "dbn";
  std::int64_t seeds = 5;
  std::int64_t first_seed = 1;
  std::int64_t labels = 1000;
  std::int64_t pretrain_epochs = 0;  // 0: of the kind
  double pretrain_lr = 0;
  std::int64_t epochs = 100;
  std::int64_t batch = 50;
  double lr = 0.05;
  double plain_lr = 0;  // without pre-training; 0: the same
  double gain = 4;      // of the weights at the start over Xavier's
  bool plain_only = false;
};

struct Data {
  sl::Tensor train, labels, test, answers;
};

sl::Tensor rows(const sl::Tensor& images) { return sl::flatten(images); }

Data load() {
  const sl::FashionMnistOptions unit{.mean = 0, .std = 1};  // pixels in [0, 1]
  const auto train = load_fashion_mnist(sl::Split::train, unit), test = load_fashion_mnist(sl::Split::test, unit);
  return {rows(train.images), train.labels, rows(test.images), test.labels};
}

// The same number of samples of every class, others for every seed.
std::shared_ptr<const sl::Dataset> labelled(const Data& data, std::int64_t count, std::int64_t seed) {
  sl::manual_seed(seed);
  const auto order = sl::permutation(data.labels.size(0)).to_vector();
  const auto* labels = data.labels.data<std::int64_t>();
  std::vector<std::int64_t> taken, of_class(10);
  for (const double place : order) {
    const auto row = static_cast<std::int64_t>(place);
    auto& have = of_class[static_cast<std::size_t>(labels[row])];
    if (have < count / 10) taken.push_back(row), ++have;
  }
  const sl::Tensor index = sl::empty({static_cast<std::int64_t>(taken.size())}, sl::DType::i64);
  std::copy(taken.begin(), taken.end(), index.data<std::int64_t>());
  return std::make_shared<sl::TensorDataset>(
      std::vector<sl::Tensor>{sl::index_select(data.train, index), sl::index_select(data.labels, index)});
}

void fine_tune(sl::nn::Module& net, const std::shared_ptr<const sl::Dataset>& data, const Options& o, double lr,
               std::int64_t seed) {
  sl::manual_seed(seed);
  sl::optim::Sgd optimizer(net.parameters(), {.lr = lr, .momentum = 0.9});
  auto step = sl::compile([&](const sl::Tensor& x, const sl::Tensor& y) {
    const sl::Tensor loss = sl::cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  sl::Loader loader(data, {.batch = o.batch, .seed = static_cast<std::uint64_t>(seed), .drop_last = true});
  for (std::int64_t epoch = 0; epoch < o.epochs; ++epoch) {
    optimizer.set_lr(lr * 0.5 * (1 + std::cos(M_PI * static_cast<double>(epoch) / static_cast<double>(o.epochs))));
    while (const sl::Batch* batch = loader.next()) step(batch->fields[0], batch->fields[1]);
  }
}

double accuracy(sl::nn::Module& net, const Data& data) {
  net.eval();
  const sl::NoGrad no_grad;
  auto right = sl::compile([&](const sl::Tensor& x, const sl::Tensor& y) {
    return sl::mean(sl::cast(sl::equal(sl::argmax(net(x), {.axes = {1}}), y), sl::DType::f32));
  });
  const double share = right(data.test, data.answers).item();
  net.train();
  return share;
}

// Begins as Glorot & Bengio (2010) recommend for sigmoids: otherwise a deep net of them learns nothing without
// pre-training, and the comparison would be no test.
sl::nn::Sequential make(const Options& o, std::int64_t seed) {
  sl::manual_seed(seed);
  const sl::zoo::DenseOptions sizes{.hidden = {500, 500, 500}};
  sl::nn::Sequential net = o.kind == "dbn" ? sl::zoo::dbn(sizes) : sl::zoo::sae_big(sizes);
  sl::nn::initialise(net, "*.weight", sl::nn::Init::xavier_uniform(o.gain));
  sl::nn::initialise(net, "*.bias", sl::nn::Init::constant(0));
  return net;
}

void pretrain(sl::nn::Module& net, const std::shared_ptr<const sl::Dataset>& images, const Options& o,
              std::int64_t seed) {
  const auto tell = [&](const std::string& layer, std::int64_t epoch, double loss) {
    fmt::print(stderr, "  seed {} {} epoch {}: {:.5f}\n", seed, layer, epoch + 1, loss);
  };
  if (o.kind == "dbn") {
    sl::zoo::RbmPretrainOptions how{.epochs = 5, .batch = 100, .lr = 0.05, .seed = seed};
    if (o.pretrain_epochs > 0) how.epochs = o.pretrain_epochs;
    if (o.pretrain_lr > 0) how.lr = o.pretrain_lr;
    sl::zoo::pretrain_rbm(net, images, how, tell);
  } else {
    sl::zoo::AutoencoderPretrainOptions how{.epochs = 5, .batch = 100, .lr = 0.01, .momentum = 0.9, .seed = seed};
    if (o.pretrain_epochs > 0) how.epochs = o.pretrain_epochs;
    if (o.pretrain_lr > 0) how.lr = o.pretrain_lr;
    sl::zoo::pretrain_autoencoder(net, images, how, tell);
  }
}

struct Mean {
  double mean = 0, error = 0;  // standard error
};
Mean mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  return {sum / n, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const Options& o) {
  const Data data = load();
  const auto images = std::make_shared<sl::TensorDataset>(std::vector<sl::Tensor>{data.train});
  std::vector<double> with, without, differences;
  fmt::print("{} with {} labels, fine-tuned for {} epochs\n{:>4}  {:>8}  {:>8}  {:>8}\n", o.kind, o.labels, o.epochs,
             "seed", "without", "with", "seconds");
  for (std::int64_t seed = o.first_seed; seed < o.first_seed + o.seeds; ++seed) {
    const auto start = std::chrono::steady_clock::now();
    const auto few = labelled(data, o.labels, seed);
    sl::nn::Sequential plain = make(o, seed), trained = make(o, seed);
    fine_tune(plain, few, o, o.plain_lr > 0 ? o.plain_lr : o.lr, seed);
    without.push_back(100 * accuracy(plain, data));
    if (o.plain_only) {
      fmt::print("{:>4}  {:>8.2f}\n", seed, without.back());
      continue;
    }
    pretrain(trained, images, o, seed);
    fine_tune(trained, few, o, o.lr, seed);
    with.push_back(100 * accuracy(trained, data));
    differences.push_back(with.back() - without.back());
    fmt::print("{:>4}  {:>8.2f}  {:>8.2f}  {:>8.1f}\n", seed, without.back(), with.back(), seconds_since(start));
    std::fflush(stdout);
  }
  if (o.plain_only) return 0;
  const Mean a = mean_of(without), b = mean_of(with), d = mean_of(differences);
  fmt::print(
      "without pre-training {:.2f} ± {:.2f} %, with {:.2f} ± {:.2f} %, difference {:.2f} ± {:.2f} ({:.1f} standard "
      "errors)\n",
      a.mean, a.error, b.mean, b.error, d.mean, d.error, d.error > 0 ? d.mean / d.error : 0);
  return d.mean > 2 * d.error ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Unsupervised pre-training with few labels");
  Options o;
  app.add_option("--kind", o.kind, "dbn or sae")->check(CLI::IsMember({"dbn", "sae"}))->capture_default_str();
  app.add_option("--seeds", o.seeds, "Runs with other labels and weights")->capture_default_str();
  app.add_option("--first-seed", o.first_seed)->capture_default_str();
  app.add_option("--labels", o.labels, "Labels that are seen")->capture_default_str();
  app.add_option("--pretrain-epochs", o.pretrain_epochs, "Of each layer; 0: 5")->capture_default_str();
  app.add_option("--pretrain-lr", o.pretrain_lr, "0: of the kind")->capture_default_str();
  app.add_option("--epochs", o.epochs, "Of fine-tuning")->capture_default_str();
  app.add_option("--batch", o.batch, "Of fine-tuning")->capture_default_str();
  app.add_option("--lr", o.lr, "Of fine-tuning")->capture_default_str();
  app.add_option("--plain-lr", o.plain_lr, "Without pre-training; 0: the same")->capture_default_str();
  app.add_option("--gain", o.gain, "Of the weights at the start over Xavier's")->capture_default_str();
  app.add_flag("--plain-only", o.plain_only, "Without pre-training alone, to find its best learning rate");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
