#ifndef STARLING_C_H
#define STARLING_C_H

/* The C interface of Starling: tensors, ops, networks, compiled training steps and saved models, for programs in C and
 * for languages that call C.
 *
 * Every function that can fail returns a status; what went wrong is said by starling_error() of the same thread.
 * Results are written through the last pointers, and only when the status is STARLING_OK. Objects are opaque handles:
 * each one that a function gives is released by the free function of its kind, once; null is released without effect.
 * Handles of tensors and modules share what they name: one may be freed while an optimizer, a step or another handle
 * still uses it.
 *
 * Threads: an object is used by one thread at a time; different objects may be used by different threads. Calls on a
 * module and on what was made from it (optimizers, steps, functions) wait for one another, so that several threads may
 * each run a function of their own of one module. Tensors that starling_module_tensor gives are those of the module:
 * read and write them while no other thread runs it.
 *
 * Options are given as YAML, the way job files give them: "lr: 0.1, momentum: 0.9". Null or "" leaves all at their
 * defaults. A text of one line is a map without its braces; one of several lines has a key in each. Comments (# …) are
 * allowed.
 *
 * Functions are only ever added, each under the symbol version of the release that brought it: a program linked against
 * this header runs with every later library of the same STARLING_C_VERSION. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STARLING_C_VERSION 1

/* NOLINTBEGIN(modernize-use-using,readability-identifier-naming): this is C */
typedef enum starling_status {
  STARLING_OK = 0,
  STARLING_BAD_ARGUMENT = 1, /* null where an object is needed, a buffer that is too small, an unknown code */
  STARLING_ERROR = 2, /* refused by the library: shapes, names, options, files; the text says what was expected */
  STARLING_OUT_OF_MEMORY = 3, /* more than this machine has, or has left */
  STARLING_INTERNAL = 4       /* anything else; a bug */
} starling_status;

typedef enum starling_dtype {
  STARLING_F64 = 0,
  STARLING_F32 = 1,
  STARLING_F16 = 2,
  STARLING_BF16 = 3,
  STARLING_I64 = 4,
  STARLING_I32 = 5,
  STARLING_I16 = 6,
  STARLING_I8 = 7,
  STARLING_U64 = 8,
  STARLING_U32 = 9,
  STARLING_U16 = 10,
  STARLING_U8 = 11,
  STARLING_BOOL = 12 /* one byte, 0 or 1 */
} starling_dtype;

typedef struct starling_tensor starling_tensor;
typedef struct starling_module starling_module;
typedef struct starling_optimizer starling_optimizer;
typedef struct starling_step starling_step;         /* a compiled training step */
typedef struct starling_function starling_function; /* a compiled forward pass */
typedef struct starling_model starling_model;       /* a saved model */
typedef struct starling_loader starling_loader;
/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

/* What went wrong in the last call of this thread that failed; "" if none has. Valid until the next call of this
 * thread. */
const char* starling_error(void);
int starling_c_version(void);                 /* STARLING_C_VERSION of the library in use */
const char* starling_version(void);           /* such as "0.1.0" */
starling_status starling_seed(uint64_t seed); /* random numbers of this thread begin anew */

/* ---- tensors: row-major, on the CPU ---- */

/* A new tensor. `data` has all values and is copied; null leaves zeros. `rank` is 0 to 8; 0 takes no shape. */
starling_status starling_tensor_new(starling_dtype dtype, const int64_t* shape, int rank, const void* data,
                                    starling_tensor** made);
void starling_tensor_free(starling_tensor* tensor);
starling_status starling_tensor_dtype(const starling_tensor* tensor, starling_dtype* dtype);
/* Writes the first `capacity` sizes and the rank; `shape` may be null if `capacity` is 0. */
starling_status starling_tensor_shape(const starling_tensor* tensor, int64_t* shape, int capacity, int* rank);
starling_status starling_tensor_bytes(const starling_tensor* tensor, size_t* bytes);
/* Copies all values out, or in; `bytes` must be those of the tensor. Only tensors whose values lie in one piece are
 * written: what views of others show, such as results of "transpose", is refused with STARLING_ERROR. */
starling_status starling_tensor_read(const starling_tensor* tensor, void* values, size_t bytes);
starling_status starling_tensor_write(starling_tensor* tensor, const void* values, size_t bytes);
starling_status starling_tensor_item(const starling_tensor* tensor, double* value); /* of a tensor of one element */

/* Gradients: of floats that require them; backward adds to the gradients of all such tensors that a scalar was made of.
 */
starling_status starling_tensor_requires_grad(starling_tensor* tensor, int on);
starling_status starling_tensor_backward(starling_tensor* scalar);
starling_status starling_tensor_grad(const starling_tensor* tensor, starling_tensor** gradient); /* null: none yet */

/* ---- ops: every op of the registry by its name (`starling ops`), attributes as text: "axes: [0], keepdim: true" ----
 */

/* Writes up to `capacity` results and how many there are; with too little room nothing is kept and the call fails.
 * Nulls at the end of the inputs are left out, such as the bias of "linear"; no other input may be null. */
starling_status starling_op(const char* name, starling_tensor* const* inputs, int count, const char* attributes,
                            starling_tensor** results, int capacity, int* made);

/* ---- networks ---- */

/* A network of the zoo (`starling zoo`): "lenet", "classes: 10". Weights begin by the random numbers of this thread. */
starling_status starling_zoo(const char* name, const char* options, starling_module** made);
/* A network from a list of layers, YAML as in job files, for samples of this shape (without the batch). */
starling_status starling_declared(const char* layers, const int64_t* sample, int rank, starling_module** made);
void starling_module_free(starling_module* module);
starling_status starling_module_parameters(const starling_module* module, int64_t* elements);
/* A parameter or buffer by name, such as "fc1.weight": the tensor itself, not a copy. */
starling_status starling_module_tensor(const starling_module* module, const char* name, starling_tensor** tensor);
/* Name of the tensor at `index` from 0; null past the end. Valid until the next call of this thread. */
starling_status starling_module_name(const starling_module* module, int index, const char** name);
starling_status starling_module_mode(starling_module* module, int training); /* 0: evaluation */
/* The forward pass, operation by operation, with gradients recorded. */
starling_status starling_module_call(starling_module* module, starling_tensor* const* inputs, int count,
                                     starling_tensor** results, int capacity, int* made);
/* All parameters and buffers in a file, as safetensors. Loading copies values in; names and shapes must agree. */
starling_status starling_module_save(const starling_module* module, const char* path);
starling_status starling_module_load(starling_module* module, const char* path);

/* ---- training ---- */

/* An optimizer over all parameters that are trained: "adam", "lr: 0.001". */
starling_status starling_optimizer_new(const char* name, starling_module* module, const char* options,
                                       starling_optimizer** made);
void starling_optimizer_free(starling_optimizer* optimizer);
starling_status starling_optimizer_step(starling_optimizer* optimizer); /* updates, and empties the gradients */
starling_status starling_optimizer_rate(const starling_optimizer* optimizer, double* lr);
starling_status starling_optimizer_set_rate(starling_optimizer* optimizer, double lr);

/* A training step as one compiled program: forward pass, loss, gradients, update. `objective` is "classify" or another
 * one of job files; it is compiled at the first run with fields of given types. The step keeps module and optimizer. */
starling_status starling_step_new(starling_module* module, starling_optimizer* optimizer, const char* objective,
                                  starling_step** made);
/* Runs it on a batch, such as images f32[n, …] and labels i64[n]; writes the loss, the mean over the batch. */
starling_status starling_step_run(starling_step* step, starling_tensor* const* fields, int count, double* loss);
void starling_step_free(starling_step* step);

/* The forward pass of a module in evaluation mode as a compiled program, without gradients. */
starling_status starling_compile(starling_module* module, starling_function** made);
starling_status starling_function_run(starling_function* function, starling_tensor* const* inputs, int count,
                                      starling_tensor** results, int capacity, int* made);
void starling_function_free(starling_function* function);

/* ---- data: sources by their names in job files: "name: fashion_mnist"; split "train", "test" or "valid" ---- */

starling_status starling_loader_new(const char* source, const char* split, int64_t batch, uint64_t seed, int shuffle,
                                    starling_loader** made);
/* The fields of the next batch, each a tensor of its own; none at the end of an epoch, after which the next one begins.
 * A call that fails, such as for lack of room, loses none: the next one gives the same batch. */
starling_status starling_loader_next(starling_loader* loader, starling_tensor** fields, int capacity, int* made);
void starling_loader_free(starling_loader* loader);

/* ---- saved models: folders that `starling predict` and other languages read ---- */

/* Writes the module in evaluation mode as a model of one input, f32[batch, sample…]. */
starling_status starling_model_save(starling_module* module, const int64_t* sample, int rank, const char* folder);
starling_status starling_model_load(const char* folder, starling_model** made);
starling_status starling_model_run(starling_model* model, starling_tensor* const* inputs, int count,
                                   starling_tensor** results, int capacity, int* made);
void starling_model_free(starling_model* model);

#ifdef __cplusplus
}
#endif

#endif
