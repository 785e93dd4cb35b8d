// LeNet from Java through the C interface: java -Djava.library.path=FOLDER Lenet [SOURCE] [STEPS]
public final class Lenet {
  static {
    System.loadLibrary("starling_java");
  }

  // Handles of C objects are numbers here. A status other than OK is thrown with the library's text.
  static native void seed(long seed);
  static native long zoo(String name, String options);
  static native long optimizer(String name, long module, String options);
  static native long step(long module, long optimizer, String objective);
  static native double run(long step, long[] fields);
  static native long compile(long module);
  static native long[] call(long function, long[] inputs);
  static native long[] op(String name, String attributes, long[] inputs);
  static native long loader(String source, String split, long batch, boolean shuffle);
  static native long[] next(long loader);
  static native double item(long tensor);
  static native long rows(long tensor);
  static native void free(long[] tensors);

  static double accuracy(long net, String source) {
    long predict = compile(net), test = loader(source, "test", 500, false);
    double right = 0, all = 0;
    for (long[] fields = next(test); fields.length > 0; fields = next(test)) {
      long[] scores = call(predict, new long[] {fields[0]});
      long[] best = op("argmax", "axes: [1]", scores);
      long[] same = op("equal", "", new long[] {best[0], fields[1]});
      long[] floats = op("cast", "dtype: f64", same);
      long[] sum = op("sum", "", floats);
      right += item(sum[0]);
      all += rows(fields[1]);
      for (long[] each : new long[][] {scores, best, same, floats, sum, fields}) free(each);
    }
    return right / all;
  }

  public static void main(String[] arguments) {
    String source = arguments.length > 0 ? arguments[0] : "name: fashion_mnist";
    int steps = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 300;
    seed(1);
    long net = zoo("lenet", "classes: 10");
    long step = step(net, optimizer("adam", net, "lr: 0.001"), "classify");
    long train = loader(source, "train", 64, true);
    double loss = 0;
    for (int done = 0; done < steps;) {
      long[] fields = next(train);
      if (fields.length == 0) continue; // the next epoch begins
      loss = run(step, fields);
      free(fields);
      ++done;
    }
    System.out.printf(java.util.Locale.ROOT, "loss %.3f, accuracy %.3f%n", loss, accuracy(net, source));
    try {
      zoo("lenett", null);
      throw new AssertionError("expected the name to be refused");
    } catch (RuntimeException refused) {
      if (!refused.getMessage().contains("lenet")) throw refused;
    }
  }
}
