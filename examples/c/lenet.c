/* LeNet in plain C: cc lenet.c $(pkg-config --cflags --libs starling_c)
 *   lenet [SOURCE] [STEPS]    "name: fashion_mnist" and 300 by default */
#include <starling_c.h>
#include <stdio.h>
#include <stdlib.h>

static void check(starling_status status) {
  if (status == STARLING_OK) return;
  fprintf(stderr, "lenet: %s\n", starling_error());
  exit(1);
}

static void free_all(starling_tensor** tensors, int count) {
  for (int i = 0; i < count; ++i) starling_tensor_free(tensors[i]);
}

/* Share of the test images that are told right. */
static double accuracy(starling_module* net, const char* source) {
  starling_loader* test;
  starling_function* predict;
  check(starling_loader_new(source, "test", 500, 0, 0, &test));
  check(starling_compile(net, &predict));
  int64_t right = 0, all = 0;
  starling_tensor* fields[2];
  int made;
  for (check(starling_loader_next(test, fields, 2, &made)); made > 0;
       check(starling_loader_next(test, fields, 2, &made))) {
    starling_tensor *scores, *best, *same, *sum;
    int one;
    check(starling_function_run(predict, fields, 1, &scores, 1, &one));
    check(starling_op("argmax", &scores, 1, "axes: [1]", &best, 1, &one));
    starling_tensor* both[] = {best, fields[1]};
    check(starling_op("equal", both, 2, NULL, &same, 1, &one));
    check(starling_op("cast", &same, 1, "dtype: f64", &sum, 1, &one));
    starling_tensor_free(same);
    check(starling_op("sum", &sum, 1, NULL, &same, 1, &one));
    double count;
    check(starling_tensor_item(same, &count));
    int64_t rows;
    int rank;
    check(starling_tensor_shape(fields[1], &rows, 1, &rank));
    right += (int64_t)count;
    all += rows;
    starling_tensor* made_here[] = {scores, best, same, sum};
    free_all(made_here, 4);
    free_all(fields, made);
  }
  starling_function_free(predict);
  starling_loader_free(test);
  return all ? (double)right / (double)all : 0;
}

int main(int count, char** arguments) {
  const char* source = count > 1 ? arguments[1] : "name: fashion_mnist";
  const int steps = count > 2 ? atoi(arguments[2]) : 300;
  starling_module* net;
  starling_optimizer* rule;
  starling_step* step;
  starling_loader* train;
  check(starling_seed(1));
  check(starling_zoo("lenet", "classes: 10", &net));
  check(starling_optimizer_new("adam", net, "lr: 0.001", &rule));
  check(starling_step_new(net, rule, "classify", &step));
  check(starling_loader_new(source, "train", 64, 1, 1, &train));
  double loss = 0;
  for (int i = 0; i < steps;) {
    starling_tensor* fields[2];
    int made;
    check(starling_loader_next(train, fields, 2, &made));
    if (made == 0) continue; /* the next epoch begins */
    check(starling_step_run(step, fields, made, &loss));
    free_all(fields, made);
    ++i;
  }
  printf("loss %.3f, accuracy %.3f\n", loss, accuracy(net, source));
  starling_loader_free(train);
  starling_step_free(step);
  starling_optimizer_free(rule);
  starling_module_free(net);
  return 0;
}
