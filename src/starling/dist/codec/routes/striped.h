#pragma once

#include "starling/dist/codec/codec.h"

namespace starling::dist {

// Lines [begin, begin + lines) of one tensor.
struct CodedSegment {
  std::size_t tensor = 0;
  std::int64_t begin = 0;
  std::int64_t lines = 0;
};
using CodedStripe = std::vector<CodedSegment>;

// Shares the lines of tensors out among ranks, in order, with about as many values each. The same on all ranks.
std::vector<CodedStripe> cut_stripes(std::span<const CodedShape> shapes, int ranks);

// All-reduce of coded pieces in two stages (reduce-scatter, then all-gather). The gradients are cut into a stripe for
// each rank. First every rank sends each stripe, coded, to its owner, who decodes what it receives and adds it in f32
// to its own values, which travel nowhere and are not coded. Then the owner codes the sum, and every rank, the owner
// too, decodes the same bytes. Each rank sends 2(P-1)/P of the wire form of its gradients.
//
// A coder with a residual keeps one in both stages: of the stripes of others what the first stage lost of this rank's
// terms, of the own stripe what the second stage lost of the sum. They lie beside each other in one tensor.
class StripedCodec final : public Codec, public PushCoder {
 public:
  // feedback: off, residuals are neither kept nor added; a control for studies.
  explicit StripedCodec(std::unique_ptr<const Coder> coder, bool feedback = true)
      : coder_(std::move(coder)), feedback_(feedback && coder_->residual()) {}

  std::vector<CodecState> states(const Shape& shape) const override;
  std::size_t scratch_bytes(std::span<const CodedShape> shapes, int rank, int ranks) const override;
  void reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch,
              std::string_view name) const override;

  const PushCoder* push_coder() const override { return this; }
  bool by_line() const override { return coder_->by_line(); }
  std::size_t most_bytes(const CodedShape& shape) const override { return coder_->wire_bytes(shape); }
  std::size_t encode(const CodedTensor& tensor, std::byte* wire) const override;
  Result<void> decode(const CodedShape& shape, std::span<const std::byte> wire, std::span<float> y) const override;

 private:
  struct Exchange;
  CodedShape unit(const CodedShape& shape) const;
  std::vector<CodedShape> units(std::span<const CodedShape> shapes) const;
  std::size_t wire_bytes(std::span<const CodedShape> units, const CodedStripe& stripe) const;

  std::unique_ptr<const Coder> coder_;
  bool feedback_;
};

}  // namespace starling::dist
