"""English wordings of abstention.

Every gap in a pattern is bounded, and clauses are short: time is linear in the reply.
"""

from __future__ import annotations

import re

from ._reading import Language, Strength, compiled

# A pattern broken over lines is harder to read than a long one.
# ruff: noqa: E501


# What an answer could have been taken from: these nouns mean nothing else in a reply …
_CONTEXT = (
    r"(?:contexts?|passages?|texts?|excerpts?|snippets?|knowledge base|documents?|search results?"
    r"|facts|paragraphs?|extracts?|(?:source|reference) materials?|documentation|article|citations?)"
)
# … and these do only with such a word before them.
_GIVEN = (
    r"(?:provided|given|available|supplied|retrieved|cited|above|current|existing|shared|attached"
    r"|presented|relevant|listed|referenced)"
)
_SOURCE = (
    rf"(?:{_CONTEXT}|{_GIVEN} (?:\w+ )?(?:information|materials?|details?|data|content|sources?"
    r"|references?|records?|sections?|pages?|answers?|guidelines?|rules|sets?)"
    rf"|(?:information|materials?|details?|data|content|sources?|facts?|answers?) {_GIVEN}"
    r"|information i have|what (?:is|was|has been) (?:provided|given))"
    r"(?: (?:that |which )?you (?:have )?(?:provided|gave|given|shared|supplied|cited))?"
)
_IN = r"(?:in|from|within|by|based on|under|per|using|with)"
_HERE = rf"\b{_IN} (?:(?:the|this|that|these|those|your|my|our|any|what) )?(?:[\w'-]+ ){{0,3}}?{_SOURCE}\b"
# Documents are also what people hand in: "no changes in the documents".
_STRICTLY_HERE = (
    rf"\b{_IN} (?:(?:the|this|that|these|those|your|my|our|any) )?(?:\w+ ){{0,2}}?(?:contexts?|passages?"
    rf"|texts?|excerpts?|snippets?|knowledge base|facts|{_GIVEN} (?:\w+ )?[a-z]+|what was provided)\b"
)
# "The context states that the plan does not cover …" tells something.
_STILL_SOURCE = (
    r"(?: (?!(?:states?|says?|shows?|indicates?|mentions?|explains?|clarif\w+|specif\w+|confirms?"
    r"|notes?|makes?|suggests?|implies|describes?|lists?|tells?|you|they|we|must|should|may"
    r"|stating|saying|stated|said|needs?|will)\b)[\w'()/-]+)"
)
_ADVERBS = (
    r"(?:(?:\w+ly|yet|even|also|itself|further|ever|seem to|appear to|in any way|in detail"
    r"|currently|been|being) ){0,4}"
)
_POINTEDLY = r"(?:explicitly|directly|specifically|clearly|expressly|precisely|explicit|detailed)"
_TELL = (
    r"(?:mention|specif(?:y|ies)|provide|address|contain|include|state|discuss|describe|explain|give"
    r"|offer|indicate|cover|detail|list|define|clarify|outline|say|elaborate|reveal|disclose|answer"
    r"|identify|touch|refer|speak|tell|show|present|advise|note|supply|go into|shed|establish"
    r"|confirm|suggest|support|have|comment|make|convey|name|talk|(?:allow|let|enable|permit) (?:me|us|one)|enumerate"
    r"|feature|hold|reference|deal|set out|spell|stipulate|prescribe|quantify|relate|pertain)"
)
_TOLD = (
    r"(?:mentioned|specified|addressed|stated|discussed|described|explained|detailed|defined"
    r"|clarified|outlined|elaborated|spelled out|referenced|touched|set out|answered|stipulated"
    r"|referred to|spelt out|enumerated|commented)"
)
_THERE = (
    r"(?:provided|given|covered|available|included|found|listed|known|indicated|disclosed|clear"
    r"|contained|present|established|documented|identified|noted|part|shown|supported|offered"
    r"|supplied|located|presented|derived|confirmed|determined|featured|evident|made clear)"
)
_WORDS = (
    r"(?:information|mention|details?|indication(?! of (?!whether|how|what|when|who|if|any))|guidance|citations?|context|explanations?|answers?"
    r"|facts?|specifics|clarity|info|discussion|descriptions?|clarification|specification|clue"
    r"|references?|instructions?|data|elaboration|opinions?|statements?)"
)
# "No data limit" and "no information is needed" speak of the world, not of the source.
_ABOUT = (
    r"(?=\W*$|[,.:;)]| (?:on|about|regarding|in|that|concerning|whether|as to|available|provided|given"
    r"|found|here|which|indicating|explicitly|directly|specifically|relat\w+|pertaining|covering"
    r"|explaining|suggesting|mentioned|at hand|within|how|what|when|where|who|why|and|or|this"
    r"|beyond|from|of|to (?:answer|determine|support|confirm|suggest|provide|indicate|say|address"
    r"|verify|respond|conclude|clarify|back)|for (?:this|the|your|that|these|how|what)|(?:can|could) be (?:found|provided|given|derived)"
    r"|(?:is|are|was|were|has been|have been|exists?) ?(?:\w+ly )?(?:available|provided|given|found|present|included|mentioned|"
    r"contained|listed|stated|offered|specified|in|here|for|on|about|regarding|$)|supporting|specific|addressing|specifying"
    r"|describing|discussing|outlining|detailing|linking|defining|stating|confirming|clarifying|were|was))"
)
_PROVIDE_INFORMATION = (
    r"(?:provide|offer|give|supply|share)(?: \w+){0,6}? (?:information|details?|answers?|guidance|advice|response"
    r"|specifics|data|explanation|opinion|recommendations?|figures?|context|insights?|clarification|estimates?)"
)
_KNOW = (
    rf"(?:know(?! of any (?:exceptions?|restrictions?|limits?|reasons?))|answer|say|tell|find|determine|confirm|locate|see|identify|help|{_PROVIDE_INFORMATION}"
    r"|assist|comment|advise|verify|access|certain|sure|aware|familiar|speculate|guess|respond"
    r"|establish|infer|conclude|recall|remember|clear|make (?:a|any) (?:claim|statement)"
    r"|have (?:\w+ ){0,4}?(?:information|access|details?|data|knowledge|answers?|context|records?"
    r"|facts?|evidence|guidance|insights?|ability|means|sources?|specifics))"
)
_ANSWER = (
    rf"(?:answer|determine|say|tell|find|confirm|locate|verify|identify|know|ascertain|respond|{_PROVIDE_INFORMATION}"
    r"|establish|help|assist|infer|conclude|clarify|specify|state|comment|advise|provide (?:an?|any|the|that|this) )"
)
_SHORT_OF = r"(?:not enough|insufficient|inadequate|too little|limited|no sufficient|not sufficient|incomplete)"
_NO_MORE = r"(?! (?:longer|later|matter|more than|less than|fewer than|need|one)\b)"
_SELF = r"(?:\bi\b|\bwe\b)"

_REFUSALS = (
    # The speaker does not know, or cannot answer.
    (Strength.EXPLICIT, rf"{_SELF} (?:do|did|can|could|am|are|was|were|would|have|will) not {_ADVERBS}(?:(?:be|really|quite|in a position|able|been able|to|safely) )*{_KNOW}\b"),
    (Strength.EXPLICIT, rf"(?:^|{_SELF} (?:am|are|was|were|remain) |sorry,? |{_SOURCE},? |so |therefore,? )(?:\w+ly )?unable to {_ANSWER}\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:am|are|was|were) (?:\w+ly )?(?:unsure|uncertain|unaware|not sure|unfamiliar)\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:have|had|found|see|find|possess) no (?:\w+ ){{0,3}}?(?:idea|information|knowledge|answers?|data|clue|access|records?|details?|mention|evidence|way|context|reference)\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:lack|failed to find|could find no|can find no)\b"),
    (Strength.EXPLICIT, r"^(?:(?:sorry|apologies|unfortunately|honestly|hmm|well|no|based on [\w ]{1,60}|(?:no citation )?(?:and|as|so|therefore|thus|hence))\b[,;:]? ?)*(?:(?:do|did) not know|not sure|no idea|unsure|can not (?:answer|say|tell|determine|be (?:answered|determined))|idk|dunno)\b"),
    (Strength.EXPLICIT, r"\b(?:question|query|this|that|it|which) (?:\w+ )?(?:can|could) not (?:\w+ ){0,2}?be (?:\w+ ){0,2}?(?:answered|determined|ascertained|inferred|deduced|addressed|derived)\b"),
    (Strength.EXPLICIT, r"\b(?:unanswerable|(?:can|could) not (?:\w+ ){0,2}?be (?:\w+ly )?(?:answered|ascertained|inferred|deduced))\b"),
    (Strength.EXPLICIT, rf"\b(?:it is |is )?(?:not possible|impossible|not feasible|no way|^not able) (?:for me )?to {_ANSWER}\b"),
    (Strength.EXPLICIT, r"\b(?:can|could) not (?:be )?(?:\w+ly )?(?:answer|respond to|address) (?:this|that|the|your)\b(?: \w+){0,2}? ?(?:question|query|request)"),
    (Strength.EXPLICIT, rf"\b(?:not|nothing) (?:something|a question|anything)? ?(?:that |which )?{_SELF} (?:can|could|am able to|are able to) {_ANSWER}\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:can|could) not {_ADVERBS}(?:(?:check|judge|assess|evaluate|work out)(?: at the moment| right now| reliably)? (?:whether|if)\b|(?:read|understand|make sense of) (?:your|this|the) (?:question|query|message|request)\b|search (?:the|my|our) (?:documents?|knowledge base|sources?|database|index)\b)"),
    (Strength.EXPLICIT, rf"{_SELF} (?:have )?found nothing (?:about|on|regarding|concerning|that|to|in)\b"),
    (Strength.EXPLICIT, r"\b(?:question|query|it|this|that) has no (?:correct|right|valid|true|definite|possible|known) answer\b"),
    # The source does not say.
    (Strength.SILENT, r"\b(?:has|have|was|were|is|are) not (?:been )?(?:made available|provided|given|supplied|shared|available|known) (?:to|with) (?:me|us)\b"),
    (Strength.SILENT, r"\bi (?:have|was|am) not (?:been )?(?:given|provided|supplied|told|shown)\b"),
    (Strength.SILENT, rf"\b(?:none|neither|nothing) (?:of|in) (?:(?:the|these|those|your|my) )?(?:\w+ ){{0,2}}?{_SOURCE}(?: \w+)? (?:relates?|pertains?|discuss(?:es)?|covers?|answers?|deals?|refers?|describes?|provides?|gives?|speaks?|touch(?:es)?|says?|tells?|helps?|concerns?|contains? (?:any )?(?:information|details?))\b"),
    (Strength.SILENT, rf"\b(?:can|could) not be (?:\w+ly )?(?:resolved|settled|decided|gleaned|gathered|concluded|substantiated|inferred|obtained|assessed)\b[^.]{{0,30}}?{_STRICTLY_HERE}"),
    (Strength.SILENT, r"^(?:the )?(?:details?|information|specifics|guidance|figures?|facts?) (?:on|about|regarding|concerning|for|of|as to)\b[^.]{3,200}? (?:is|are|was|were) not (?:\w+ly )?(?:provided|given|available|included|covered|present|listed|found|supplied)$"),
    (Strength.SILENT, r"\b(?:the|a|any) (?:relevant|specific|applicable|corresponding|necessary) facts?\b[^.]{0,120}? (?:is|are|was|were) not (?:\w+ly )?(?:provided|given|available|included|present|listed|found|supplied)\b"),
    (Strength.SILENT, r"^no (?:\w+ )?(?:facts?|passages?|documents?|sources?|texts?|context) (?:\w+ ){0,3}?(?:states?|mentions?|says?|address(?:es)?|discuss(?:es)?|covers?|specif(?:y|ies)|gives?|describes?|explains?|confirms?|indicates?|answers?)\b"),
    (Strength.SILENT, r"\bnothing (?:is|was|has been) (?:said|stated|written|given|provided) (?:about|on|regarding|as to|concerning)\b"),
    (Strength.SILENT, rf"\bnot (?:something|anything|a (?:topic|point|matter)) (?:that |which )?(?:is )?(?:(?:the |these |those )?{_SOURCE} (?:\w+ )?(?:address|cover|mention|discuss|specif|state|provide|describe|explain|contain|deal)|(?:{_TOLD}|{_THERE})\b[^.]{{0,40}}?{_HERE})"),
    (Strength.SILENT, r"\bnot (?:contained |included )?in (?:the|any) (?:materials?|information|facts|documents?|texts?|passages?|context)(?: that)? (?:i|we) (?:was|were|have|am|had|can)\b"),
    (Strength.SILENT, r"^the answer(?: to [^.]{1,80})? is not (?:\w+ )?(?:available|provided|given|known|there|present|found)\b"),
    (Strength.SILENT, rf"\b{_SOURCE},? which (?:do|does|did) not {_ADVERBS}{_TELL} (?:this|that|the|any|such|information|details|enough|anything|an answer)\b"),
    (Strength.SILENT, r"\b(?:there is|i (?:see|find|found)) nothing (?:\w+ )?here (?:on|about|regarding|that)\b"),
    (Strength.SILENT, rf"\b{_SOURCE}\b{_STILL_SOURCE}{{0,10}}? (?:do|does|did|can|could|would|has|have|is|are|was|were) not {_ADVERBS}{_TELL}"),
    (Strength.SILENT, rf"\b{_SOURCE}\b{_STILL_SOURCE}{{0,6}}? (?:lacks?|omits?|fails? to|says? nothing|(?:makes?|offers?|contains?|gives?|provides?|has|have|includes?|holds?|shows?|lists?) (?:no|nothing|neither|few|little)\b|is silent|are silent|is missing|only (?:\w+ )?(?:mentions?|covers?|states?|discusses|describes?|addresses|refers?|provides?|contains?))"),
    (Strength.SILENT, rf"\b(?:is|are|was|were|has|have|isnt)? ?not {_ADVERBS}{_TOLD}\b(?! otherwise)"),
    (Strength.SILENT, rf"\bnot (?:\w+ )?{_POINTEDLY} (?:\w+ )?{_THERE}\b"),
    (Strength.SILENT, rf"\bnot {_ADVERBS}(?:a )?{_THERE}\b[^.]{{0,60}}?{_HERE}"),
    (Strength.SILENT, rf"\b(?:there (?:is|are|was|were|seems? to be|appears? to be)|^) ?(?:currently |also |simply |therefore |thus )?(?:no|not any)\b(?: [\w'/-]+){{0,4}}? {_WORDS}\b{_ABOUT}"),
    (Strength.SILENT, rf"\bno (?:\w+ly )?(?:relevant|specific|direct|explicit|clear|further|additional|supporting|exact|detailed|particular|concrete|definitive|available|known|applicable|other|corresponding)(?: [\w'/-]+){{0,3}}? {_WORDS}\b{_ABOUT}"),
    (Strength.SILENT, rf"\bno{_NO_MORE}(?:,? (?!as (?:is |was )?{_TOLD})[\w'\"()/&-]+){{1,18}}? {_TOLD}\b(?!.{{0,120}}, so (?:you|they|it|members|applicants) (?:can|may|need|do|are|will|must|should)\b)"),
    (Strength.SILENT, rf"\bno (?:specific|direct|explicit|relevant|clear|particular|exact)\b(?:,? [\w'\"()/&-]+){{1,18}}? {_THERE}\b"),
    (Strength.SILENT, r"\bno (?:specific|direct|explicit|relevant|clear)\b(?: [\w'\"()/&-]+){0,6}? (?:provides?|addresses|indicates?|mentions?|states?|specifies|explains?|describes?|covers?)\b"),
    (Strength.SILENT, rf"\b(?:no|nothing)\b{_NO_MORE}[^.]{{0,100}}?\b(?:{_THERE}|{_TOLD}|exists?|appears?|mention)\b[^.]{{0,20}}?{_HERE}"),
    (Strength.SILENT, rf"\b(?:no|nothing|nowhere|none)\b{_NO_MORE}(?: [\w'/-]+){{0,8}}? {_STRICTLY_HERE}"),
    (Strength.SILENT, rf"\b(?:nothing|nowhere|none|neither)\b(?: [\w'/-]+){{0,8}}? (?:is |are |was |were )?(?:{_TOLD}|mentions?|address(?:es)?|specif(?:y|ies)|states?|explains?)\b"),
    (Strength.SILENT, rf"\b(?:unclear|unknown|unspecified|uncertain|undisclosed|unstated|unmentioned|unavailable|inconclusive|undetermined|undefined|missing|absent|lacking)\b[^.]{{0,50}}?{_HERE}"),
    (Strength.SILENT, rf"\b(?:do|does|did) not {_ADVERBS}(?:have an?|provide|specify|mention|state|give|explain|detail|describe|address|discuss|clarify)\b[^.]{{0,60}}?{_HERE}"),
    (Strength.SILENT, r"^(?:it|they|this|that|these) (?:do|does|did) not (?:\w+ly )?(?:mention|specify|address|state|discuss|describe|explain|detail|clarify|elaborate|define|outline|indicate)\b"),
    (Strength.SILENT, rf"\b{_SOURCE}\b(?: \w+)? (?:do|does|did) not$"),
    (Strength.SILENT, rf"\b(?:is|are|was|were) not (?:\w+ )?{_STRICTLY_HERE}"),
    (Strength.SILENT, r"\b(?:unspecified|unmentioned|unstated|unaddressed|undetermined)\b"),
    (Strength.SILENT, rf"\b(?<!with ){_SHORT_OF} (?:\w+ ){{0,2}}?(?:information|context|data|details?|evidence|facts?|knowledge|material)\b"),
    (Strength.SILENT, rf"\b(?:information|context|data|details?|evidence|facts|material)\b(?: \w+){{0,4}}? (?:is|are) {_SHORT_OF}"),
    (Strength.SILENT, rf"\b(?:outside|beyond)(?: of)? (?:the )?(?:\w+ ){{0,3}}?(?:scope|range|extent) of (?:[\w']+ ){{0,4}}?(?:{_SOURCE}|knowledge|information|expertise|data)"),
    (Strength.SILENT, rf"\b(?:outside|beyond)(?: of)? (?:my|our|what|{_SOURCE}|the (?:\w+ ){{0,3}}?{_SOURCE})"),
    (Strength.SILENT, rf"\b(?:specific|further|more|additional|exact|clear)(?: [\w']+){{0,3}}? (?:information|details?|guidance|data)\b(?: [\w']+){{0,8}}? (?:is|are) (?:not|unavailable|missing|needed|required) ?(?:\w+ )?(?:to {_ANSWER}|available|provided|given|included|here|$)"),
    (Strength.SILENT, rf"\b(?:more|further|additional) (?:\w+ )?(?:information|context|details?)\b(?: \w+){{0,4}}? to (?:\w+ly )?{_ANSWER}\b"),
    (Strength.SILENT, rf"\b(?:can|could) not be (?:\w+ly )?{_THERE}\b[^.]{{0,60}}?{_HERE}"),
    (Strength.SILENT, r"^(?:there is )?(?:no|without) (?:\w+ )?citations?\b"),
    (Strength.SILENT, r"\b(?:is|are|was|were|remains?|stays?) (?:\w+ly |still |also |as yet |simply )?(?:unclear|unknown|undetermined|inconclusive|not (?:yet |entirely |fully |currently |publicly )?(?:clear|known|certain))\b(?!-| (?:to|as|for|by)\b)"),
    # What real answers say as well.
    (Strength.HINT, rf"\bno (?:[\w'/-]+ ){{0,3}}?(?:{_WORDS}|evidence|records?|statement|requirement|indication|consensus)\b{_ABOUT}"),
    (Strength.HINT, r"\b(?:is|are|was|were|remains?|stays?) (?:\w+ly |still |also |as yet )?(?:uncertain|undisclosed|not (?:yet |publicly )?(?:disclosed|public))\b"),
    (Strength.HINT, r"\b(?:can|could) not be (?:\w+ly )?(?:determined|established|confirmed|derived|concluded|identified|verified|known)\b"),
    (Strength.HINT, r"\b(?:not|hard|difficult) (?:easy )?to (?:say|know|tell|determine|predict)\b"),
    (Strength.HINT, r"\b(?:as an ai|my (?:training|knowledge)|knowledge cut-?off|real-?time (?:information|data|access))\b"),
    (Strength.HINT, r"\b(?:could|can|would) you (?:please )?(?:provide|clarify|share|specify|give|elaborate)\b"),
    (Strength.HINT, r"\bplease (?:provide|share|supply|clarify|specify)\b(?: \w+){0,3}? (?:context|information|details?|documents?|question)"),
    (Strength.HINT, r"\b(?:without|need|require) (?:more|further|additional|specific|any|the relevant) (?:\w+ )?(?:context|information|details?)\b"),
)  # fmt: skip

ENGLISH = Language(
    refusals=compiled(_REFUSALS),
    conditions=re.compile(
        r"(?:^|[,:(] ?|\b(?:and|or|only|even|that|then) )(?:if|unless|when|whenever|where|in case|until|once|should|for"
        r" (?:those|anyone|people|items|cases))\b[^,]{0,200}$"
        # Another's words, or words about words.
        r"|\b(?:said|saying|say|replied|answered|responded|wrote|phrase|words?|sentence|titled|called|named|song|means)\b[^\"']{0,20}[\"'][^\"]{0,60}$"
        r"|\b(?:if|whether)(?: (?:the|your|any|there|this|some|his|her|their))?(?: \w+)? $"
        r"|\b(?:who|whose|you|they|he|she) $"
    ),
    whole=re.compile(
        r"\W*(?:(?:i am |so |very )*(?:sorry|apologies|unfortunately)\b\W*)?"
        r"(?:(?:nobody|no one) knows|unknown|n ?/ ?a|n\. ?a\.|none|null|idk|dunno|tb[cd]|unanswerable|unclear|uncertain"
        r"|unsure|undetermined|unspecified|undisclosed|(?:i )?do not know|(?:i am )?not sure"
        r"|not (?:known|applicable|available|specified|mentioned|stated|provided|found|given)"
        r"|no (?:idea|clue|comment|information|info|data|citations?|context|response|results?"
        r"|relevant (?:information|context|facts?)|answers?(?: found| available| exists?)?)"
        r"|(?:i am )?unable(?: to (?:answer|say|respond|determine))?"
        r"|can not (?:answer|say|determine|be (?:answered|determined))"
        r"|(?:insufficient|not enough) (?:information|context|data)"
        r"|information not (?:available|found|provided))\W*"
    ),
    courtesy=re.compile(
        r"(?:(?:i am |we are |i |we )?(?:(?:so |very |really |deeply )?(?:sorry|apologi[sz]e|apologies|regret)|my apologies|unfortunately"
        r"|thank you|thanks|hello|hi|dear|sure|certainly|of course|good question|great question|hope this helps"
        r"|i hope this helps|let me know|please note|note)\b(?: \w+){0,6}"
        r"|(?:based on|according to|in|from|as per|given|looking at)(?: [\w']+){1,7})\W*"
    ),
    redirect=re.compile(
        r"\b(?:check|contact|consult|refer|reach out|visit|ask|seek|look (?:up|at|into)|speak|verify|enquire|inquire"
        r"|review|call|email|get in touch|turn to|approach|search)\b"
    ),
    source_talk=re.compile(
        rf"\W*(?:instead|rather|only|while|although|even though|though)?,? ?(?:(?:it|they|the (?:\w+ )?{_SOURCE}|{_SOURCE}|facts? \d+)(?: [\w']+){{0,2}}? )?(?:only |does |do |just |mainly |primarily )?"
        r"(?:says? only|mentions?|includes?|discuss(?:es)?|covers?|provides?|states?|focus(?:es)? on|describes?|contains?"
        r"|talks? about|refers?|lists?|outlines?|explains?|emphasi[sz]es?|relates? to|clarif(?:y|ies)|deals? with)\b"
    ),
    yes_or_no=re.compile(r"\W*(?:yes|no)\b\W"),
)


# A pattern broken over lines is harder to read than a long one.
# ruff: noqa: E501


_SOURCE_CHINESE = (
    r"(?:上下文|语境|文中|文本|文章|文档|文件|资料|材料|信息|内文|内容|段落|背景|知识库|原文|文献|片段"
    r"|数据库?|参考|来源|搜索结果|检索结果|资讯|手册|网页|档案|指南|引文|引用|题目|条文|说明书|知识|事实(?!上|是))"
)
_FULLY = (
    r"(?:直接|明确|具体|详细|专门|特别|进一步|准确|完全|清楚|任何|确切|充分|足够|明文|单独|完整|相应|有效|可靠|地|的|有|能|能够"
    r"|对此|就此|并|给您|给你|为您|为你|向您|向你|更多|过|太)"
)
_TELL_CHINESE = (
    r"(?:提到|提及|说明|说到|指出|指明|涉及|包含|包括|含有|给出|提供|描述|描写|介绍|讨论|解释|规定|列出|列明|显示"
    r"|记载|记录|谈到|谈及|阐述|阐明|定义|界定|回答|涵盖|交代|透露|表明|写明|写到|注明|载明|论述|述及|讲到|讲|说|告知|支持"
    r"|覆盖|有关|关于|相关|信息|资料|答案|内容|直接回应|回应|披露|公布)"
)
_NOT = r"(?:并没有|并未|没有|未曾|未能|未|没|并不|不曾|尚未|均未|都没有|也未|也没有|暂未|毫无|冇)"
_ANSWER_CHINESE = (
    r"(?:回答|作答|答复|回复|解答|确定|判断|得知|获知|提供|给出|确认|回应|得出|找到|查到|查询到|说明|告知"
    r"|解释|推断|推测|知晓|了解|知道|核实|查明|断定|判定|帮助|协助|获取|获得|得到|看出|评论)"
)
_SOME = r"(?:任何|足够|充分|充足|相关|具体|明确|更多|直接|可用|必要|详细|确切|有效|可靠|这方面|有用|有关|的)"
_CAN_NOT = r"(?:无法|不能够?|不可以|没办法|没有办法|难以|无从|未能|没能|不便)"
_NOUN = r"(?:信息|资料|内容|说明|记录|依据|提及|数据|线索|答案|证据|资讯|描述|介绍|解释|细节|规定|引用|参考|上下文|文献|背景|记载|表述|定论|定义|结果|事实(?!上|是))"
_SPEAKER = r"(?:^|[,:、 ]|我们?|本(?:系统|助手|人|模型)|抱歉|对不起|遗憾(?:的是)?|(?:此|该|这个?)?问题|因此|所以|故|恐怕)"
# "Those who cannot provide proof …" are not the speaker.
_NOT_SOMEONE = r"(?![^,。]{0,24}的(?:人|访客|旅客|申请|投保|受保|患者|病人|会员|乘客|用户|客户|学生|员工|雇主|家长|公司|家庭)|[^,。]{0,16}(?:也没关系|没关系|也无妨|也可以|的话))"
_PARTICLES = (
    r"(?:目前|暂时|现在|也|尚|还是?|仍然?|都|真的?|实在|确实|暂|并|就|是|完全|对此|而|我们?)*"
)
# What the source does say is an answer.
_STILL_SOURCE_CHINESE = (
    r"(?:(?!显示|规定|指出|表明|写明|可知|得知|说|，|,|要求|必须|应)[^。!?]){0,24}?"
)

_REFUSALS_CHINESE = (
    (Strength.EXPLICIT, rf"{_SPEAKER}{_PARTICLES}不(?:太|是很|大|完全)?(?:知道|清楚|确定|了解|晓得|知|懂|肯定|明白)(?!的){_NOT_SOMEONE}"),
    (Strength.EXPLICIT, r"(?:唔知道?|唔清楚|唔肯定|唔识答)"),
    (Strength.EXPLICIT, rf"(?:^|我们?|本(?:系统|助手)){_PARTICLES}{_CAN_NOT}{_FULLY}{{0,2}}(?:检索|检查|读取|查阅|搜索|核对|识别|理解){_NOT_SOMEONE}"),
    (Strength.EXPLICIT, rf"{_CAN_NOT}{_FULLY}{{0,4}}(?:对.{{0,20}}?|就.{{0,20}}?)?(?:回答|作答|解答|得知|获知|知晓|推断|从)"),
    (Strength.EXPLICIT, rf"(?:{_CAN_NOT}|很难)(?:仅|只)?(?:根据|依据|基于|通过|凭|由|用)[^,。]{{0,24}}?{_SOURCE}[^,。]{{0,8}}?{_ANSWER}"),
    (Strength.EXPLICIT, r"^(?:不存在|没有|找不到)(?:任何|一个|哪个|哪位|任何一个)?(?:人|实体|对象|选项)?(?:这样|符合|满足|同时)(?:满足|符合|具备)?[^,。]{0,24}?的(?:人|人物|实体|对象|选项|事物|个体|结果)$"),
    (Strength.SILENT, rf"{_SOURCE}(?:中|里面?|内|上)?[^,。]{{0,8}}?(?:找|查|搜)不到$|查无(?:此|相关|任何)?(?:资料|信息|记录|结果|内容)"),
    (Strength.EXPLICIT, rf"(?:从|由|根据)[^,。]{{0,12}}?{_SOURCE}[^,。]{{0,6}}?(?:看|得|判断|推断)不(?:出|到)"),
    (Strength.EXPLICIT, r"(?:我|本(?:系统|助手|模型))[^,。]{0,10}一无所知|^答案(?:是)?(?:未知|不详|不明)$"),
    (Strength.EXPLICIT, r"^没有(?:任何)?(?:人|实体|选项|对象)(?:能|可以)?(?:同时)?(?:满足|符合)[^,。]{0,16}?(?:条件|要求)$"),
    (Strength.EXPLICIT, r"^(?:两个?|以上|所有|这些|给出的|上述)*(?:选项|答案|者)?都不(?:正确|对|符合|是正确的?答案)$"),
    (Strength.SILENT, rf"(?:未|没有|没|未曾)(?:直接|明确|具体)?(?:在|于|被)[^,。]{{0,16}}?{_SOURCE}[^,。]{{0,6}}?(?:出现|提及|提到|找到|说明|给出|体现|列出|提供|显示|涵盖)"),
    (Strength.EXPLICIT, r"(?:回答不了|答不上来|答不出|不可考|不得而知|无从得知|无可奉告|没法回答|没法确定|爱莫能助)"),
    (Strength.EXPLICIT, rf"(?:{_SPEAKER}{_PARTICLES}|{_SOURCE}(?:中|里|内|也|均|都|并|,)*|(?:根据|基于|依据|由于|从|按)[^,。]{{0,40}},?{_PARTICLES}){_CAN_NOT}{_FULLY}{{0,4}}(?:为您|为你|给您|给你|向您|向你|对.{{0,20}}?|就.{{0,20}}?|从.{{0,20}}?|在.{{0,20}}?|帮您|帮你)?{_FULLY}{{0,2}}{_ANSWER}{_NOT_SOMEONE}"),
    (Strength.EXPLICIT, r"(?:没有|无|并无|找不到|不存在|尚无|未找到)(?:一个|任何|明确|确切|相关|合适|正确|标准|确定|现成|准确|满足条件|符合条件|符合要求|对应|的)*(?:的)?答案"),
    (Strength.SILENT, rf"{_SOURCE}(?:资料|内容|信息|片段|文本|里|里面|中|当中|之中|内|上)?{_STILL_SOURCE}(?:{_NOT}{_FULLY}{{0,4}}{_TELL}|不{_FULLY}{{0,4}}(?:包含|涉及|提供|支持|提及|含有|足以))"),
    (Strength.SILENT, rf"{_SOURCE}(?:里面?|中|内|当中|之中)?(?:对此|完全|也|都|并|似乎|就此|显然)*(?:没有|并无|无(?![须需论效偿限条法])|缺乏|缺少|仅(?:提到|提及|涉及|包含|说明|介绍)|只(?:提到|提及|涉及|包含|说明|介绍|讲))"),
    (Strength.SILENT, rf"(?:没有|未|并未|并没有|未曾|尚未|没|均未|暂未|未能){_FULLY}{{0,4}}(?:提到|提及|说明|涉及|指明|写明|谈到|谈及|讨论|阐述|交代|注明|指出|记载|述及|列明|载明|讲到|说到|描述)(?![^,。]{{0,12}}(?:者|的人|时(?:$|,)))"),
    (Strength.SILENT, rf"(?:没有|并未|未|并没有|未能|没){_FULLY}{{0,4}}(?:提供|给出|包含|包括)[^,。]{{0,24}}{_NOUN}(?![^,。]{{0,12}}(?:者|的人|时(?:$|,)))"),
    (Strength.SILENT, rf"(?:没有|并无|并没有|暂无|尚无|无|缺乏|缺少|没|未有|未找到|未查到|未见|未发现|找不到|查不到|未能找到|没找到|没有找到|没有查到|没查到|未检索到|检索不到|搜索不到|搜不到|欠缺)(?:到)?(?:{_SOME}{{1,4}}|{_SOME}{{0,2}}(?:与|有关|关于|对|能|可以?|支持)[^,。!?]{{1,40}}?){_NOUN}(?!限制|要求|费|上限|收集|传输|保护|需要|丢失|泄露|差异|交换){_NOT_SOMEONE}"),
    (Strength.SILENT, rf"(?:找不到|查不到|未找到|未查到|未能找到|没找到|没有找到|没有查到|没查到|未检索到|检索不到|搜索不到|搜不到){_FULLY}{{0,2}}.{{0,20}}?{_NOUN}"),
    (Strength.SILENT, r"(?:信息|资料|上下文|数据|证据|依据|内容|资讯)(?:还|仍|并|尚|均|太|过于|都|有所|是|明显)*(?:不足|不够|不充分|有限|缺失|不完整|欠缺|太少)"),
    (Strength.SILENT, r"(?:不在|超出|超过).{0,14}?(?:资料|上下文|知识|文档|文件|回答|我的|内容|信息|文本|材料)"),
    (Strength.SILENT, r"(?:需要|请|还需|须).{0,6}?(?:更多|进一步|补充|额外).{0,8}?(?:信息|资料|上下文|背景|细节).{0,4}?(?:才能|以便|来|方能)"),
    (Strength.SILENT, r"(?:资料|文件|网页|里面|入面|内文|文中)?(?:冇|无)(?:提到?|提及|讲到?|写明?|说明)"),
    (Strength.HINT, r"(?:没有|无|暂无|尚无|并无)(?:.{0,6}的)?(?:信息|资料|资讯|定论|记录|记载|依据|说明)(?:$|[,。可])"),
    (Strength.HINT, r"(?:是否|何时|多少|如何|具体|目前|原因|情况|数据|时间)[^。!?,]{0,20}?(?:并|尚|还|仍|暂)?(?:不明确?|不清楚|不确定|不详|未知|未定|不得而知|待定|难说|难以确定)"),
    (Strength.HINT, rf"{_CAN_NOT}{_FULLY}{{0,4}}(?:确定|判断|确认|断定|判定|核实)"),
    (Strength.HINT, r"(?:未|没有|尚未)(?:公布|披露|透露|公开|给出|提供|明确)"),
    (Strength.HINT, r"(?:请|能否|可以|可否|麻烦).{0,4}?(?:提供|补充|说明)(?:更多|进一步|具体|相关|详细|一下|上下文)"),
    (Strength.HINT, r"(?:作为|身为)(?:一个|一名)?(?:人工智能|ai|语言模型|大模型)"),
)  # fmt: skip

CHINESE = Language(
    refusals=compiled(_REFUSALS_CHINESE),
    conditions=re.compile(
        r"(?:说|回答|意思是|写道|表示|歌名|名为|叫做?)[^\"《]{0,4}[\"《][^\"》]{0,24}$|《[^》]{0,24}$"
        r"|(?:如果|若|假如|如|倘若|万一|除非|只要|凡|当|一旦|无论|不论|对于|即使|哪怕|要是)[^,。]{0,60}$"
        r"|(?:您|你|他|她|他们|她们|人们|申请人|用户|客户|学生|员工|顾客|者|方|人士|大家|很多人|许多人|雇主|公司|银行|警方|患者)(?:也|都|仍|还|可能|暂时|目前|均)?$"
    ),
    whole=re.compile(
        r"\W*(?:无|无答案|没有答案|未知|不知道|我不知道|不详|不清楚|不确定|无法(?:回答|确定|作答|提供|判断|得知)|不能回答|无可奉告|暂无"
        r"|(?:没有|无|暂无|尚无)(?:任何)?(?:相关|合适|正确|具体|明确|有关)?的?(?:答案|信息|资料|资讯|内容|引用|记录|结果|数据)|不适用|无从得知|不得而知"
        r"|未(?:提及|提供|说明|找到|提到|指明|知)|没有(?:提到|提及|说明)|找不到(?:答案)?|信息不足|资料不足|唔知道?|以上都不是|都不是)(?:了|呢|啊|的|哦|喔)?\W*"
    ),
    courtesy=re.compile(
        r"(?:非常|很|十分|真的|真是|实在|我)*(?:抱歉|对不起|不好意思|遗憾(?:的是)?|您好|你好|感谢.{0,10}|谢谢.{0,10}|希望.{0,20}|好的|唔好意思)\W*"
        r"|(?:根据|基于|按照|依据|从|在|就)[^,。]{0,24}"
    ),
    redirect=re.compile(
        r"(?:请|建议|您可以?|你可以?|可以?|不妨|最好|烦请|推荐)[^。!?]{0,16}?(?:联系|联络|咨询|查阅|查看|参考|访问|询问|查询|请教|致电|浏览|参阅|核实|确认|了解|补充|提供)"
    ),
    source_talk=re.compile(
        rf"\W*(?:虽然|尽管)?(?:该|此|这些?|所给|所?提供的|现有|相关)?(?:{_SOURCE}(?:中|里|内)?|它|其中)?(?:只|仅|主要|仅仅)?(?:提到|提及|介绍|讨论|涉及|说明|描述|讲述|包含|包括|讲|谈)了?"
    ),
    yes_or_no=re.compile(
        r"\W*(?:是的?|不是|对|不|否|可以|不可以|不能|不需要|会|不会|能)\s*(?:[,:]|$)"
    ),
)
