# Made by generate.py from optimized/kernels/{scalar.cpp,avx2_elementary.hpp}.
# exp_core's polynomial, every operation rounded, on any binary64 that the reduction may give; P without roundings.
@D = float<ieee_64, ne>;
r = D(r_);
p0 = 1892883791434041b-76;
p1 = D(D(p0 * r) + 1301357606610903b-72);
P1 = p0 * r + 1301357606610903b-72;
p2 = D(D(p1 * r) + 1626697008263629b-69);
P2 = P1 * r + 1626697008263629b-69;
p3 = D(D(p2 * r) + 3660068268593165b-67);
P3 = P2 * r + 3660068268593165b-67;
p4 = D(D(p3 * r) + 3660068268593165b-64);
P4 = P3 * r + 3660068268593165b-64;
p5 = D(D(p4 * r) + 6405119470038039b-62);
P5 = P4 * r + 6405119470038039b-62;
p6 = D(D(p5 * r) + 4803839602528529b-59);
P6 = P5 * r + 4803839602528529b-59;
p7 = D(D(p6 * r) + 6004799503160661b-57);
P7 = P6 * r + 6004799503160661b-57;
p8 = D(D(p7 * r) + 6004799503160661b-55);
P8 = P7 * r + 6004799503160661b-55;
p9 = D(D(p8 * r) + 1b-1);
P9 = P8 * r + 1b-1;
p10 = D(D(p9 * r) + 1b-0);
P10 = P9 * r + 1b-0;
p11 = D(D(p10 * r) + 1b-0);
P11 = P10 * r + 1b-0;

{ |r| <= 0.34658 -> |p11 - P11| <= 0x1.2p-52 }
