from rloo_verify.packing import ROW_TOKENS, Scored, build_rows, collate, micro_batches


def test_completions_of_one_prompt_share_a_row():
    rows = build_rows([Scored(0, (1, 2), (3,)), Scored(1, (1, 2), (4, 5)), Scored(2, (9,), (6,))])
    assert [[one.index for one in row.scored] for row in rows] == [[0, 1], [2]]
    assert [len(row) for row in rows] == [5, 2]  # 2 + 1 + 2 and 1 + 1


def test_long_completions_get_a_row_each():
    long = (7,) * (ROW_TOKENS // 2)
    rows = build_rows([Scored(0, (1, 2), long), Scored(1, (1, 2), long)])
    assert len(rows) == 2  # 2 + 512 + 512 > 1024


def test_empty_completions_are_left_out():
    assert build_rows([Scored(0, (1,), ())]) == []


def test_the_layout_of_a_shared_row_by_hand():
    rows = build_rows([Scored(0, (10, 11), (12, 13)), Scored(1, (10, 11), (14,))])
    batch = collate(rows)
    assert batch.token_ids_B_T.tolist() == [[10, 11, 12, 13, 14]]
    assert batch.position_ids_B_T.tolist() == [[0, 1, 2, 3, 2]]  # restarts after the prompt
    assert batch.predictors_2_K.tolist() == [[0, 0, 0], [1, 2, 1]]  # both first tokens come from the last prompt token
    assert batch.targets_K.tolist() == [12, 13, 14]
    assert batch.owners_K.tolist() == [0, 0, 1]
    visible = batch.attention_mask[0, 0].int().tolist()
    assert visible == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],  # the second completion does not see the first
    ]


def test_rows_of_one_completion_take_the_plain_padding_mask():
    batch = collate(build_rows([Scored(0, (1, 2), (3,)), Scored(1, (4,), (5,))]))
    assert batch.attention_mask.tolist() == [[1, 1, 1], [1, 1, 0]]


def test_micro_batches_stay_within_their_budget_padding_included():
    rows = build_rows([Scored(i, (i,), (1,) * n) for i, n in enumerate([9, 4, 4, 2, 1])])
    batches = micro_batches(rows, 10)
    assert [[len(row) for row in batch] for batch in batches] == [[10], [5, 5], [3, 2]]
    assert all(len(batch[0]) * len(batch) <= 10 for batch in batches)


def test_a_row_over_the_budget_goes_alone():
    assert len(micro_batches(build_rows([Scored(0, (1,), (2,) * 50), Scored(1, (3,), (4,))]), 10)) == 2
