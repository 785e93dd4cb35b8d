#include <starling_c.h>
#include <stdio.h>

/* The installed C interface from outside: one op, one network. */
int main(void) {
  const float values[] = {1, 2, 3};
  const int64_t shape[] = {3};
  starling_tensor *x, *sum;
  starling_module* net;
  int made;
  double total;
  if (starling_tensor_new(STARLING_F32, shape, 1, values, &x) || starling_op("sum", &x, 1, NULL, &sum, 1, &made) ||
      starling_tensor_item(sum, &total) || starling_zoo("lenet", NULL, &net)) {
    fprintf(stderr, "%s\n", starling_error());
    return 1;
  }
  starling_module_free(net);
  starling_tensor_free(sum);
  starling_tensor_free(x);
  return total == 6 ? 0 : 1;
}
