// The two Adult files, as they are in model/data/adult, inside the library. model/CMakeLists.txt gives the paths.

        .section .rodata

        .global troupe_adult_train
        .global troupe_adult_train_end
        .global troupe_adult_test
        .global troupe_adult_test_end

troupe_adult_train:
        .incbin TROUPE_ADULT_TRAIN
troupe_adult_train_end:

troupe_adult_test:
        .incbin TROUPE_ADULT_TEST
troupe_adult_test_end:

        .section .note.GNU-stack, "", %progbits
