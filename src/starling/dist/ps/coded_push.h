#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/ps/keys.h"
#include "starling/dist/ps/message.h"

namespace starling::dist::ps {

// A job's codec towards its servers, as both ends of a push know it. Only the form of values depends on it: a server
// decodes a push to f32 and goes on as with any other.
class PushCodec {
 public:
  // Throws for a codec without a form that servers decode, and names those that have one.
  explicit PushCodec(const CodecChoice& choice = CodecChoice());

  bool none() const { return codec_ == nullptr; }
  bool by_factors() const { return codec_ != nullptr && coder_ == nullptr; }  // of dense layers; nothing else is coded
  bool chooses() const { return half_ != nullptr; }  // a form for each tensor: dense, factors, bf16 or that of coder()
  bool takes_factors() const { return by_factors() || chooses(); }
  bool by_line() const { return codec_ != nullptr && (coder_ == nullptr || coder_->by_line()); }
  std::uint32_t form() const { return form_; }  // of headers; kPlain: none
  const Codec& codec() const { return *codec_; }
  const PushCoder& coder() const { return *coder_; }
  const PushCoder& half() const { return *half_->push_coder(); }  // if it chooses
  std::uint32_t half_form() const { return half_form_; }
  // True if gradients of this piece are coded by coder(): f32, and whole lines where the codec's form is one of lines.
  bool codes(const ServedTensor& tensor, const TensorType& piece) const;

  // Server's side: values of a coded push, in memory of their own. Failure: the parts are no push of this piece.
  Result<Bytes> decode(const Header& header, const ServedTensor& tensor, const TensorType& piece,
                       std::span<const Bytes> parts) const;

 private:
  Result<Bytes> product(const TensorType& piece, std::span<const Bytes> parts) const;

  CodecPtr codec_;
  const PushCoder* coder_ = nullptr;  // of codec_; null: it is one of factors
  std::uint32_t form_ = kPlain;
  CodecPtr half_, bit_;  // of a codec that chooses
  std::uint32_t half_form_ = kPlain;
};

// True if servers decode the form of this codec; `none` has one, too.
bool can_be_pushed(const CodecChoice& choice);
std::string pushable_codecs();  // names, for messages

// Worker's side: codes its gradients, key by key, and keeps the residuals, which have not been sent yet.
class CodedPushes {
 public:
  CodedPushes(PushCodec codec, KeyTable keys);

  std::uint32_t form() const { return codec_.form(); }
  // True if encode() makes what is pushed of this key; else it travels as it is.
  bool codes(const Key& key) const;

  // Form of a tensor from now on, where the codec chooses. What one_bit has kept leaves with the next push.
  bool chooses() const { return codec_.chooses(); }
  void set_form(std::size_t tensor, GradientForm form) { forms_[tensor] = form; }
  std::uint32_t form_of(const Key& key) const;  // number, of encode()

  // Codes this key's piece of a gradient, f32 values from `x` on; the residual is added to the next one.
  Bytes encode(const Key& key, const float* x);

  // True if there is a residual of this key; of any key.
  bool keeps(const Key& key) const { return pieces_[key.id].fresh > 0 && !pieces_[key.id].states.empty(); }
  bool keeps() const;
  // Takes out the residual of this key, for a push of plain values: it is zero then. The momentum of a codec begins
  // anew, as it does after gradients that were sent whole.
  Bytes release(const Key& key);

  // Traffic of a tensor so far.
  struct Traffic {
    double before = 0, after = 0;  // bytes of its gradients, and of the forms that were sent of them
    double error = 0;  // norm of what is kept, as a share of that of the gradient, in the last push that was looked at
  };
  const Traffic& traffic(std::size_t tensor) const { return traffic_[tensor]; }

 private:
  struct Piece {
    bool coded = false;
    std::vector<CodecState> kinds{};  // of states
    std::vector<Tensor> states{};
    std::int64_t pushes = 0, fresh = 0;  // fresh: since the last release
    double kept = 0, given = 0;          // squares, when last looked at
  };
  std::size_t encode_whole(const Key& key, const float* x, std::byte* wire);
  void look(const Key& key, const float* x);

  PushCodec codec_;
  KeyTable keys_;
  std::vector<Piece> pieces_;        // by key
  std::vector<Traffic> traffic_;     // by tensor
  std::vector<GradientForm> forms_;  // by tensor, of a codec that chooses
};

}  // namespace starling::dist::ps
