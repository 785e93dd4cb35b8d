/* The binary interface that programs were compiled against: types of every function, values of every name of an
 * enumeration, sizes. Compiled against the header, which must agree with each line, and listed beside symbols.txt by
 * symbols_test.py. Lines are added, never changed: whoever has to change one breaks programs that exist. */
#include <starling_c.h>

#define VALUE(name, number) _Static_assert((name) == (number), "the value that programs were compiled with")

VALUE(STARLING_C_VERSION, 1);
VALUE(STARLING_OK, 0);
VALUE(STARLING_BAD_ARGUMENT, 1);
VALUE(STARLING_ERROR, 2);
VALUE(STARLING_OUT_OF_MEMORY, 3);
VALUE(STARLING_INTERNAL, 4);
VALUE(sizeof(starling_status), 4);
VALUE(STARLING_F64, 0);
VALUE(STARLING_F32, 1);
VALUE(STARLING_F16, 2);
VALUE(STARLING_BF16, 3);
VALUE(STARLING_I64, 4);
VALUE(STARLING_I32, 5);
VALUE(STARLING_I16, 6);
VALUE(STARLING_I8, 7);
VALUE(STARLING_U64, 8);
VALUE(STARLING_U32, 9);
VALUE(STARLING_U16, 10);
VALUE(STARLING_U8, 11);
VALUE(STARLING_BOOL, 12);
VALUE(sizeof(starling_dtype), 4);

/* A second declaration of a function with another type is an error. */
int starling_c_version(void);
starling_status starling_compile(starling_module*, starling_function**);
starling_status starling_declared(const char*, const int64_t*, int, starling_module**);
const char* starling_error(void);
void starling_function_free(starling_function*);
starling_status starling_function_run(starling_function*, starling_tensor* const*, int, starling_tensor**, int, int*);
void starling_loader_free(starling_loader*);
starling_status starling_loader_new(const char*, const char*, int64_t, uint64_t, int, starling_loader**);
starling_status starling_loader_next(starling_loader*, starling_tensor**, int, int*);
void starling_model_free(starling_model*);
starling_status starling_model_load(const char*, starling_model**);
starling_status starling_model_run(starling_model*, starling_tensor* const*, int, starling_tensor**, int, int*);
starling_status starling_model_save(starling_module*, const int64_t*, int, const char*);
starling_status starling_module_call(starling_module*, starling_tensor* const*, int, starling_tensor**, int, int*);
void starling_module_free(starling_module*);
starling_status starling_module_load(starling_module*, const char*);
starling_status starling_module_mode(starling_module*, int);
starling_status starling_module_name(const starling_module*, int, const char**);
starling_status starling_module_parameters(const starling_module*, int64_t*);
starling_status starling_module_save(const starling_module*, const char*);
starling_status starling_module_tensor(const starling_module*, const char*, starling_tensor**);
starling_status starling_op(const char*, starling_tensor* const*, int, const char*, starling_tensor**, int, int*);
void starling_optimizer_free(starling_optimizer*);
starling_status starling_optimizer_new(const char*, starling_module*, const char*, starling_optimizer**);
starling_status starling_optimizer_rate(const starling_optimizer*, double*);
starling_status starling_optimizer_set_rate(starling_optimizer*, double);
starling_status starling_optimizer_step(starling_optimizer*);
starling_status starling_seed(uint64_t);
void starling_step_free(starling_step*);
starling_status starling_step_new(starling_module*, starling_optimizer*, const char*, starling_step**);
starling_status starling_step_run(starling_step*, starling_tensor* const*, int, double*);
starling_status starling_tensor_backward(starling_tensor*);
starling_status starling_tensor_bytes(const starling_tensor*, size_t*);
starling_status starling_tensor_dtype(const starling_tensor*, starling_dtype*);
void starling_tensor_free(starling_tensor*);
starling_status starling_tensor_grad(const starling_tensor*, starling_tensor**);
starling_status starling_tensor_item(const starling_tensor*, double*);
starling_status starling_tensor_new(starling_dtype, const int64_t*, int, const void*, starling_tensor**);
starling_status starling_tensor_read(const starling_tensor*, void*, size_t);
starling_status starling_tensor_requires_grad(starling_tensor*, int);
starling_status starling_tensor_shape(const starling_tensor*, int64_t*, int, int*);
starling_status starling_tensor_write(starling_tensor*, const void*, size_t);
const char* starling_version(void);
starling_status starling_zoo(const char*, const char*, starling_module**);
