#pragma once

#include <cstddef>
#include <cstdint>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"
#include "starling/tensor/shape.h"

// LAPACK by its Fortran names: column-major matrices, arguments by address, string lengths at the end.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void dgetri_(const int* n, double* a, const int* lda, const int* pivots, double* work, const int* lwork, int* info);
void dgetrs_(const char* trans, const int* n, const int* nrhs, const double* a, const int* lda, const int* pivots,
             double* b, const int* ldb, int* info, std::size_t);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, std::size_t);
void dgelqf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work, const int* lwork,
             int* info);
void dorglq_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau, double* work,
             const int* lwork, int* info);
void dgesdd_(const char* job, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* iwork, int* info,
             std::size_t);
void dsyevd_(const char* job, const char* uplo, const int* n, double* a, const int* lda, double* w, double* work,
             const int* lwork, int* iwork, const int* liwork, int* info, std::size_t, std::size_t);
int openblas_get_parallel();  // 2: OpenMP
}
// NOLINTEND(readability-identifier-naming)

namespace starling::kernels {

// Batch of matrices, each processed in double. Threads share many small ones; LAPACK's own threads serve a few large
// ones.
struct MatrixBatch {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::size_t doubles = 0;  // workspace per matrix
  std::size_t ints = 0;
  int threads = 1;
  bool large = false;  // worth LAPACK's own threads

  MatrixBatch(const Shape& shape, int most_threads);
  std::size_t workspace() const { return round_up(doubles * sizeof(double) + ints * sizeof(int)); }
  std::size_t scratch_bytes() const { return workspace() * static_cast<std::size_t>(threads); }

  // Calls f(index, doubles, ints) for every matrix.
  template <class F>
  void each(void* scratch, F&& f) const {
    const auto some = [&](int thread) {
      auto* memory = static_cast<std::byte*>(scratch) + workspace() * static_cast<std::size_t>(thread);
      auto* numbers = reinterpret_cast<double*>(memory);
      auto* integers = reinterpret_cast<int*>(memory + doubles * sizeof(double));
      for (std::int64_t i = count * thread / threads; i < count * (thread + 1) / threads; ++i) f(i, numbers, integers);
    };
    if (threads == 1 && !large) {
      const ThreadScope alone(1);  // LAPACK would wake all threads even for the smallest matrix
      return some(0);
    }
    if (threads == 1) return some(0);
    parallel_run(threads, some);
  }
};

}  // namespace starling::kernels
