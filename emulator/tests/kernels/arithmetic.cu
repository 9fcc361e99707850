// Integers, division, bits, double precision and elementary functions as compilers print them.
extern "C" __global__ void integers(const int* x, const unsigned* u, const long long* l, long long* out, int n) {
  const int i = threadIdx.x;
  const int a = x[i], b = x[i + 1] | 1;
  const unsigned c = u[i], d = u[i + 1] | 1;
  const long long e = l[i], f = l[i + 1] | 1;
  long long* o = out + i * 32;
  o[0] = a / b, o[1] = a % b, o[2] = c / d, o[3] = c % d, o[4] = e / f, o[5] = e % f;
  o[6] = __popc(c), o[7] = __clz(a), o[8] = __ffs(a), o[9] = __brev(c), o[10] = __popcll(e), o[11] = __clzll(e);
  o[12] = __mulhi(a, b), o[13] = __umulhi(c, d), o[14] = __mul64hi(e, f), o[15] = (long long)a * b;
  o[16] = __byte_perm(c, d, a & 0x7777), o[17] = __funnelshift_l(c, d, a & 63), o[18] = __funnelshift_r(c, d, a & 63);
  o[19] = __usad(c, d, 7), o[20] = __sad(a, b, 7), o[21] = min(a, b), o[22] = max(c, d), o[23] = abs(a);
  o[24] = a >> (c & 31), o[25] = c >> (d & 31), o[26] = e << (c & 63), o[27] = (c & d) ^ (c | ~d), o[28] = __dp4a(a, b, 3);
  o[29] = (short)a * (short)b, o[30] = (unsigned char)c + (signed char)d, o[31] = __mul24(a, b);
}

extern "C" __global__ void floats(const float* x, float* out) {
  const int i = threadIdx.x;
  const float a = x[i], b = x[i + 1];
  float* o = out + i * 24;
  o[0] = a / b, o[1] = sqrtf(fabsf(a)), o[2] = expf(a), o[3] = logf(fabsf(a)), o[4] = sinf(a), o[5] = cosf(a);
  o[6] = tanhf(a), o[7] = powf(fabsf(a), b), o[8] = erff(a), o[9] = rsqrtf(fabsf(a)), o[10] = fminf(a, b), o[11] = fmaxf(a, b);
  o[12] = floorf(a), o[13] = ceilf(a), o[14] = truncf(a), o[15] = rintf(a), o[16] = roundf(a), o[17] = fmodf(a, b);
  o[18] = __fadd_rz(a, b), o[19] = __fmul_ru(a, b), o[20] = __fdiv_rd(a, b), o[21] = __fmaf_ru(a, b, a);
  o[22] = exp2f(a), o[23] = a < b ? copysignf(a, b) : __saturatef(a);
}

extern "C" __global__ void doubles(const double* x, double* out) {
  const int i = threadIdx.x;
  const double a = x[i], b = x[i + 1];
  double* o = out + i * 10;
  o[0] = a / b, o[1] = sqrt(fabs(a)), o[2] = exp(a), o[3] = log(fabs(a)), o[4] = fma(a, b, a), o[5] = fmin(a, b);
  o[6] = floor(a), o[7] = sin(a), o[8] = a * b - a, o[9] = (double)(float)a + (double)(long long)b;
}
