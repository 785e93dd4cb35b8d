#include "starling/dist/ps/coded_push.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/hash/crc32c.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/def/apply.h"
#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

constexpr std::int64_t kLookEvery = 32;  // pushes of a key between two looks at the norms of what is kept
constexpr std::uint32_t kNamed = 0x80000000;

std::uint32_t number_of(const std::string& codec) {
  return kNamed | crc32c(std::as_bytes(std::span(codec.data(), codec.size())));
}

// Memory of a peer need not be aligned.
Bytes aligned_for_words(const Bytes& wire) {
  if (reinterpret_cast<std::uintptr_t>(wire.data) % sizeof(std::uint32_t) == 0) return wire;
  const auto copy = std::make_shared<std::vector<std::uint32_t>>((wire.size + 3) / 4);
  copy_bytes(copy->data(), wire.data, wire.size);
  return {copy, reinterpret_cast<const std::byte*>(copy->data()), wire.size};
}

Tensor floats_over(const Bytes& bytes, const Shape& shape) {
  const Bytes wire = aligned_for_words(bytes);
  auto* data = const_cast<std::byte*>(wire.data);
  const auto keep = [owner = wire.owner](void*) {};
  return from_storage(Ref<Storage>(new Storage(kCpu, data, wire.size, keep, true)), DType::f32, shape);
}

double squares(const float* x, std::int64_t n) {
  double sums[4] = {0, 0, 0, 0};
  for (std::int64_t i = 0; i < n; ++i) sums[i % 4] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

bool can_be_pushed(const CodecChoice& choice) {
  if (!choice.layers.empty()) return false;
  const CodecPtr codec = choice.make();
  return codec == nullptr || codec->push_coder() != nullptr || (codec->only_factors() && !codec->needs_costs()) ||
         codec->choose({}, {}, {}).has_value();
}

std::string pushable_codecs() {
  std::vector<std::string> names;
  for (const std::string& name : codec_kinds().names()) {
    if (can_be_pushed(CodecChoice{codec_kinds().by_name(name), {}})) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

PushCodec::PushCodec(const CodecChoice& choice) {
  check(can_be_pushed(choice), "[ps] expected a codec whose form servers decode ({}), got {}", pushable_codecs(),
        choice.label());
  codec_ = choice.make();
  if (!codec_) return;
  if (codec_->choose({}, {}, {})) {
    half_ = codec_kinds().by_name("bf16").make();
    bit_ = codec_kinds().by_name("one_bit").make();
    half_form_ = number_of("bf16");
  }
  coder_ = bit_ ? bit_->push_coder() : codec_->push_coder();
  form_ = coder_ ? number_of(bit_ ? "one_bit" : choice.chosen.name) : kFactors;
}

bool PushCodec::codes(const ServedTensor& tensor, const TensorType& piece) const {
  if (coder_ == nullptr || piece.dtype != DType::f32 || piece.shape.numel() == 0) return false;
  return !coder_->by_line() || piece.shape.rank() == tensor.type.shape.rank();  // flat: cut within a line
}

Result<Bytes> PushCodec::decode(const Header& header, const ServedTensor& tensor, const TensorType& piece,
                                std::span<const Bytes> parts) const {
  const bool half = chooses() && header.form == half_form_, factors = takes_factors() && header.form == kFactors;
  if (header.form != form_ && !half && !factors)
    return failure("expected gradients in the form of the job's codec, got another");
  if (factors) return product(piece, parts);
  const PushCoder* const coder_of = half ? half_->push_coder() : coder_;
  if (!codes(tensor, piece) || parts.size() != 1)
    return failure("expected values of {} as they are, got a coded gradient", to_string(piece));
  const CodedShape shape = coded_shape(piece.shape);
  if (const std::size_t most = coder_of->most_bytes(shape); parts[0].size > most)
    return failure("expected at most {} bytes for {}, got {}", most, to_string(piece), parts[0].size);
  const Bytes wire = aligned_for_words(parts[0]);
  const Tensor values = empty(piece.shape, piece.dtype);
  const auto n = static_cast<std::size_t>(piece.shape.numel());
  auto fits = coder_of->decode(shape, {wire.data, wire.size}, {values.data<float>(), n});
  if (!fits) return fits.failure();
  return share(values);
}

// δᵀ·a of the rows of this piece.
Result<Bytes> PushCodec::product(const TensorType& piece, std::span<const Bytes> parts) const {
  const bool matrix = piece.dtype == DType::f32 && piece.shape.rank() == 2 && piece.shape.numel() > 0;
  if (!matrix || parts.size() != 2) return failure("expected values of {} as they are, got factors", to_string(piece));
  const auto outputs = static_cast<std::size_t>(piece.shape[0]), inputs = static_cast<std::size_t>(piece.shape[1]);
  const std::size_t rows = parts[1].size / (sizeof(float) * inputs);
  if (rows == 0 || parts[1].size != sizeof(float) * rows * inputs || parts[0].size != sizeof(float) * rows * outputs)
    return failure("expected as many rows of {} errors as of {} inputs, got {} and {} bytes", outputs, inputs,
                   parts[0].size, parts[1].size);
  const NoGrad no_grad;
  const auto count = static_cast<std::int64_t>(rows);
  return share(matmul(floats_over(parts[0], {count, piece.shape[0]}), floats_over(parts[1], {count, piece.shape[1]}),
                      {.trans_a = true}));
}

CodedPushes::CodedPushes(PushCodec codec, KeyTable keys)
    : codec_(std::move(codec)),
      keys_(std::move(keys)),
      traffic_(keys_.tensors().size()),
      forms_(keys_.tensors().size(), GradientForm::dense) {
  for (const Key& key : keys_.keys()) {
    const TensorType type = keys_.type_of(key);
    Piece piece{.coded = codec_.codes(keys_.tensors()[key.tensor], type)};
    if (piece.coded) {
      piece.kinds = codec_.codec().states(type.shape);
      for (const CodecState& state : piece.kinds) {
        piece.states.push_back(zeros(state.shape));
        if (state.begin)
          state.begin({piece.states.back().data<float>(), static_cast<std::size_t>(state.shape.numel())});
      }
    }
    pieces_.push_back(std::move(piece));
  }
}

bool CodedPushes::codes(const Key& key) const {
  const Piece& piece = pieces_[key.id];
  if (!chooses() || !piece.coded) return piece.coded;
  const GradientForm form = forms_[key.tensor];
  return form == GradientForm::bf16 || form == GradientForm::one_bit || keeps(key);
}

std::uint32_t CodedPushes::form_of(const Key& key) const {
  if (!chooses() || forms_[key.tensor] == GradientForm::one_bit) return codec_.form();
  return forms_[key.tensor] == GradientForm::bf16 ? codec_.half_form() : kPlain;
}

// x and all that was kept, in 16 bits or as it is; nothing is kept then.
std::size_t CodedPushes::encode_whole(const Key& key, const float* x, std::byte* wire) {
  Piece& piece = pieces_[key.id];
  const CodedShape shape = coded_shape(keys_.type_of(key).shape);
  std::vector<float> whole(x, x + key.size);
  for (const Tensor& state : piece.states) {
    float* kept = state.data<float>();
    for (std::int64_t i = 0; i < key.size; ++i) whole[static_cast<std::size_t>(i)] += std::exchange(kept[i], 0.0F);
  }
  piece.fresh = 0;
  if (forms_[key.tensor] == GradientForm::bf16) return codec_.half().encode({.shape = shape, .x = whole.data()}, wire);
  copy_bytes(wire, whole.data(), keys_.bytes(key));
  return keys_.bytes(key);
}

Bytes CodedPushes::encode(const Key& key, const float* x) {
  Piece& piece = pieces_[key.id];
  const CodedShape shape = coded_shape(keys_.type_of(key).shape);
  std::vector<float*> states;
  for (const Tensor& state : piece.states) states.push_back(state.data<float>());
  const bool whole = chooses() && forms_[key.tensor] != GradientForm::one_bit;
  const std::size_t most = std::max(codec_.coder().most_bytes(shape), whole ? keys_.bytes(key) : 0);
  const std::shared_ptr<std::byte[]> wire(new std::byte[std::max<std::size_t>(most, 1)]);
  const std::size_t size = whole ? encode_whole(key, x, wire.get())
                                 : codec_.coder().encode({.shape = shape, .x = x, .states = states}, wire.get());
  if (!whole) ++piece.fresh;
  if (piece.pushes++ % kLookEvery == 0) look(key, x);
  Traffic& traffic = traffic_[key.tensor];
  traffic.before += static_cast<double>(keys_.bytes(key));
  traffic.after += static_cast<double>(size);
  return {wire, wire.get(), size};
}

void CodedPushes::look(const Key& key, const float* x) {
  Piece& own = pieces_[key.id];
  own.given = squares(x, key.size);
  own.kept = own.states.empty() ? 0 : squares(own.states[0].data<float>(), key.size);
  double kept = 0, given = 0;
  for (const Key& other : keys_.keys_of(key.tensor)) {
    kept += pieces_[other.id].kept;
    given += pieces_[other.id].given;
  }
  traffic_[key.tensor].error = given > 0 ? std::sqrt(kept / given) : 0;
}

bool CodedPushes::keeps() const {
  return std::ranges::any_of(keys_.keys(), [&](const Key& key) { return keeps(key); });
}

Bytes CodedPushes::release(const Key& key) {
  Piece& piece = pieces_[key.id];
  const Tensor kept = piece.states[0];
  for (std::size_t s = 0; s < piece.states.size(); ++s) {
    if (!piece.kinds[s].shared) piece.states[s] = zeros(piece.states[s].shape());
  }
  piece.fresh = 0;
  return share(kept);
}

}  // namespace starling::dist::ps
