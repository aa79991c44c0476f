# Made by generate.py from optimized/kernels/{scalar.cpp,avx2_elementary.hpp}.
# exp_core's reduction, with fma. x is a binary32 or twice one: where k is not 0, a multiple of 2^-25.
@D = float<ieee_64, ne>;
log2e = 3248660424278399b-51;
L1 = 2977044471b-32;
L2 = 3691024475790907b-84;
shifted = D(x * log2e + 0x1.8p52);
k = D(shifted - 0x1.8p52);
r1 = D(x - k * L1);
r = D(r1 - k * L2);

{ @FIX(x, -25) /\ |x| <= 104 ->
   |k| <= 151 /\ @FIX(k, 0) /\ |r| <= 0.34658 /\ |r - ((x - k * L1) - k * L2)| <= 0x1.00001p-55 }

k - x * log2e -> (k - (shifted - 0x1.8p52)) + (shifted - (x * log2e + 0x1.8p52)) + (x * log2e - x * log2e);
x - k * L1 -> (0 - (k - x * log2e)) * (L1 + L2) - x * (log2e * (L1 + L2) - 1) + k * L2;
