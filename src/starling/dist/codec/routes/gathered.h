#pragma once

#include "starling/dist/codec/codec.h"

namespace starling::dist {

// Codec whose ranks each send a few chosen values of their gradients to all others, who add them up in rank order.
// Derived classes say which. The wire form of a tensor is a word with the number of its 32-bit words, then those. What
// others send is checked: a rank whose options differ is named.
class GatheredCodec : public Codec, public PushCoder {
 public:
  // Throws Error for tensors that are too large.
  std::size_t scratch_bytes(std::span<const CodedShape> shapes, int rank, int ranks) const final;
  void reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch, std::string_view name) const final;

  // A push is the words of one tensor, without their number.
  const PushCoder* push_coder() const final { return this; }
  bool by_line() const final { return false; }
  std::size_t most_bytes(const CodedShape& shape) const final;
  std::size_t encode(const CodedTensor& tensor, std::byte* wire) const final;
  Result<void> decode(const CodedShape& shape, std::span<const std::byte> wire, std::span<float> y) const final;

 protected:
  // Throws Error unless a word can hold the index of a value and a bit, or the number of two words for each value.
  static void expect_countable(std::int64_t values);

  // Words that choose() may write at most.
  virtual std::int64_t most_words(std::int64_t values) const = 0;
  // Floats of memory that choose() works in.
  virtual std::int64_t work_values([[maybe_unused]] std::int64_t values) const { return 0; }
  // Takes x into the states, writes what is sent now and takes that out of the states; returns the words written.
  virtual std::int64_t choose(const CodedTensor& tensor, int ranks, float* work, std::uint32_t* words) const = 0;
  // Adds what a rank has sent; false if these are no words that choose() writes for a tensor of this size.
  virtual bool add(std::span<const std::uint32_t> words, std::span<float> y) const = 0;
  // A single rank: x and all that is kept becomes y, and nothing is kept.
  virtual void release(const CodedTensor& tensor) const = 0;

 private:
  std::int64_t most_words(std::span<const CodedTensor> tensors) const;
  std::int64_t choose_all(std::span<const CodedTensor> tensors, int ranks, float* work, std::uint32_t* words) const;
  bool add_all(std::span<const std::uint32_t> words, std::span<const CodedTensor> tensors) const;
};

}  // namespace starling::dist
