/* Native methods of Lenet.java over the C interface. */
#include <jni.h>
#include <starling_c.h>

#define FIELDS 8

/* After a failure an exception waits in Java: the caller returns at once. */
static int failed(JNIEnv* java, starling_status status) {
  if (status == STARLING_OK) return 0;
  (*java)->ThrowNew(java, (*java)->FindClass(java, "java/lang/RuntimeException"), starling_error());
  return 1;
}

static const char* text(JNIEnv* java, jstring given) {
  return given ? (*java)->GetStringUTFChars(java, given, NULL) : NULL;
}
static void drop(JNIEnv* java, jstring given, const char* text) {
  if (given) (*java)->ReleaseStringUTFChars(java, given, text);
}

static int tensors(JNIEnv* java, jlongArray given, starling_tensor** into) {
  jlong handles[FIELDS];
  jsize count = (*java)->GetArrayLength(java, given);
  if (count > FIELDS) count = FIELDS;
  (*java)->GetLongArrayRegion(java, given, 0, count, handles);
  for (jsize i = 0; i < count; ++i) into[i] = (starling_tensor*)handles[i];
  return count;
}

static jlongArray handles(JNIEnv* java, starling_tensor** from, int count) {
  jlong numbers[FIELDS];
  for (int i = 0; i < count; ++i) numbers[i] = (jlong)from[i];
  jlongArray array = (*java)->NewLongArray(java, count);
  if (array) (*java)->SetLongArrayRegion(java, array, 0, count, numbers);
  return array;
}

JNIEXPORT void JNICALL Java_Lenet_seed(JNIEnv* java, jclass self, jlong seed) {
  (void)self;
  failed(java, starling_seed((uint64_t)seed));
}

JNIEXPORT jlong JNICALL Java_Lenet_zoo(JNIEnv* java, jclass self, jstring name, jstring options) {
  (void)self;
  const char *name_text = text(java, name), *option_text = text(java, options);
  starling_module* made = NULL;
  const starling_status status = starling_zoo(name_text, option_text, &made);
  drop(java, name, name_text);
  drop(java, options, option_text);
  return failed(java, status) ? 0 : (jlong)made;
}

JNIEXPORT jlong JNICALL Java_Lenet_optimizer(JNIEnv* java, jclass self, jstring name, jlong module, jstring options) {
  (void)self;
  const char *name_text = text(java, name), *option_text = text(java, options);
  starling_optimizer* made = NULL;
  const starling_status status = starling_optimizer_new(name_text, (starling_module*)module, option_text, &made);
  drop(java, name, name_text);
  drop(java, options, option_text);
  return failed(java, status) ? 0 : (jlong)made;
}

JNIEXPORT jlong JNICALL Java_Lenet_step(JNIEnv* java, jclass self, jlong module, jlong optimizer, jstring objective) {
  (void)self;
  const char* name = text(java, objective);
  starling_step* made = NULL;
  const starling_status status = starling_step_new((starling_module*)module, (starling_optimizer*)optimizer, name, &made);
  drop(java, objective, name);
  return failed(java, status) ? 0 : (jlong)made;
}

JNIEXPORT jdouble JNICALL Java_Lenet_run(JNIEnv* java, jclass self, jlong step, jlongArray fields) {
  (void)self;
  starling_tensor* in[FIELDS];
  double loss = 0;
  failed(java, starling_step_run((starling_step*)step, in, tensors(java, fields, in), &loss));
  return loss;
}

JNIEXPORT jlong JNICALL Java_Lenet_compile(JNIEnv* java, jclass self, jlong module) {
  (void)self;
  starling_function* made = NULL;
  return failed(java, starling_compile((starling_module*)module, &made)) ? 0 : (jlong)made;
}

JNIEXPORT jlongArray JNICALL Java_Lenet_call(JNIEnv* java, jclass self, jlong function, jlongArray inputs) {
  (void)self;
  starling_tensor *in[FIELDS], *out[FIELDS];
  int made = 0;
  const int count = tensors(java, inputs, in);
  if (failed(java, starling_function_run((starling_function*)function, in, count, out, FIELDS, &made))) return NULL;
  return handles(java, out, made);
}

JNIEXPORT jlongArray JNICALL Java_Lenet_op(JNIEnv* java, jclass self, jstring name, jstring attributes,
                                           jlongArray inputs) {
  (void)self;
  starling_tensor *in[FIELDS], *out[FIELDS];
  int made = 0;
  const int count = tensors(java, inputs, in);
  const char *name_text = text(java, name), *attribute_text = text(java, attributes);
  const starling_status status = starling_op(name_text, in, count, attribute_text, out, FIELDS, &made);
  drop(java, name, name_text);
  drop(java, attributes, attribute_text);
  return failed(java, status) ? NULL : handles(java, out, made);
}

JNIEXPORT jlong JNICALL Java_Lenet_loader(JNIEnv* java, jclass self, jstring source, jstring split, jlong batch,
                                          jboolean shuffle) {
  (void)self;
  const char *source_text = text(java, source), *split_text = text(java, split);
  starling_loader* made = NULL;
  const starling_status status = starling_loader_new(source_text, split_text, batch, 1, shuffle, &made);
  drop(java, source, source_text);
  drop(java, split, split_text);
  return failed(java, status) ? 0 : (jlong)made;
}

JNIEXPORT jlongArray JNICALL Java_Lenet_next(JNIEnv* java, jclass self, jlong loader) {
  (void)self;
  starling_tensor* out[FIELDS];
  int made = 0;
  if (failed(java, starling_loader_next((starling_loader*)loader, out, FIELDS, &made))) return NULL;
  return handles(java, out, made);
}

JNIEXPORT jdouble JNICALL Java_Lenet_item(JNIEnv* java, jclass self, jlong tensor) {
  (void)self;
  double value = 0;
  failed(java, starling_tensor_item((starling_tensor*)tensor, &value));
  return value;
}

JNIEXPORT jlong JNICALL Java_Lenet_rows(JNIEnv* java, jclass self, jlong tensor) {
  (void)self;
  int64_t rows = 1;
  int rank = 0;
  failed(java, starling_tensor_shape((starling_tensor*)tensor, &rows, 1, &rank));
  return rows;
}

JNIEXPORT void JNICALL Java_Lenet_free(JNIEnv* java, jclass self, jlongArray given) {
  (void)self;
  starling_tensor* all[FIELDS];
  const int count = tensors(java, given, all);
  for (int i = 0; i < count; ++i) starling_tensor_free(all[i]);
}
